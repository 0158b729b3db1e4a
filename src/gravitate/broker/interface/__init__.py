"""What goes into a broker and what comes out of it."""
