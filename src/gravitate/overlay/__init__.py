"""Shapes: the primary tree, overlay maps, the ring, coordinates."""
