"""Which broker serves whom: subscriber assignment under bounds on latency and load (paper 4)."""
