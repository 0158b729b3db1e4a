"""Gravitate: a publish/subscribe network that pulls itself into shape."""

__version__ = "0.1.0"
