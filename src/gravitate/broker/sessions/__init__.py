"""Clients: what they are owed, and what they publish."""
