"""One subscriber after the other, and the best balance of load there is."""
