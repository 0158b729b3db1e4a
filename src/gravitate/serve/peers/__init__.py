"""Links to other brokers on sockets."""
