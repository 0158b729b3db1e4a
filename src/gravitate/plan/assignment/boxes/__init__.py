"""Boxes and unions of them: volumes, groups, candidate rectangles, filters that grow."""
