"""Clients that stay connected here and are attached, or served, elsewhere."""
