"""The store of a run: which trace files came, which are fit, and how they are copied."""
