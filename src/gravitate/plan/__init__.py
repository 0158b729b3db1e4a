"""The optimisers and the flow model: pure functions on plain data and arrays."""
