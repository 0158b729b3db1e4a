"""The papers' experiments, and every mechanism compared."""
