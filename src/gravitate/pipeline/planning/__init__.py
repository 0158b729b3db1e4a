"""Plans from recorded traffic: which moves, what they are predicted to change, what they did."""
