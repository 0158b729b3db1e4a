"""Where publishers should be: GRAPE, POP, and all publishers of a network at once."""
