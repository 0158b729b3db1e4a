"""The flow model: what events do to a tree of brokers."""
