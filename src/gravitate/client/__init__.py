"""The thin layer for applications written for Gravitate: MQTT 5 with conditions and event ids."""

from __future__ import annotations

from gravitate.client.client import Client
from gravitate.client.messages import Message, Subscription

__all__ = ["Client", "Message", "Subscription"]
