"""Spark itself: the one session, its Java and its memory, what it says when a job fails."""
