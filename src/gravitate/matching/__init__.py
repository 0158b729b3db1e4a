"""Which filters match an event."""
