"""MQTT 3.1.1 and 5 as bytes: packets, the scanner for received reads, bodies and emission."""
