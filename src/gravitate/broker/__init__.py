"""One broker as a state machine: routing, forwarding, links, sessions. No I/O, no clock."""
