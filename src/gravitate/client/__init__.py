"""The thin layer for applications written for Gravitate."""
