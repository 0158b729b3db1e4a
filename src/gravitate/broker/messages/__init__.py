"""What brokers say to each other."""
