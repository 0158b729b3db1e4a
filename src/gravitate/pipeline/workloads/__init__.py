"""Workloads made on Spark: `catalogue` lists them, `making` makes one, `generate` is how."""
