"""Content-based routing along the tree."""
