"""Subscriber assignment with the subscribers on Spark."""
