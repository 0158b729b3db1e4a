"""Scenarios played on sockets."""
