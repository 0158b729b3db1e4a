"""Many brokers on a virtual clock, with faults and checkers."""
