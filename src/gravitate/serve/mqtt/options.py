"""What can be set on an MQTT listener."""

from __future__ import annotations

from gravitate.config.listeners import MqttSpec


class DoorOptions(MqttSpec, frozen=True, forbid_unknown_fields=True):
    payload_fields: bool = True
    """Whether conditions may look into JSON payloads that came in here (`payload.x`)."""
