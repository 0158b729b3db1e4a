"""The same brokers on sockets: peer links, MQTT, HTTP."""
