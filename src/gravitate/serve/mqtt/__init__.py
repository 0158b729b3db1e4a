"""The MQTT front door of a node."""

from __future__ import annotations

from gravitate.serve.mqtt.door import MqttDoor, serve_mqtt
from gravitate.serve.mqtt.options import DoorOptions

__all__ = ["DoorOptions", "MqttDoor", "serve_mqtt"]
