"""Links to other brokers: what is queued, acknowledged and sent again."""
