"""What changes the network by itself: how it is hosted."""
