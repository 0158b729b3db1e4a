"""A running network from outside: brokers asked over HTTP, plans applied, restarts in turn."""
