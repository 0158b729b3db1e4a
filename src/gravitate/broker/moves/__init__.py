"""Clients that change brokers."""
