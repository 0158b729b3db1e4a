"""The assignment problem and its solutions: what is given, what must hold, and the checker."""
