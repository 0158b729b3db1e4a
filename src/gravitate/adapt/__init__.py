"""The fast loop: mechanisms that watch the traffic through one broker and propose moves."""
