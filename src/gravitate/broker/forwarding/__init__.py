"""The way of a batch through a broker, and to whom it goes next."""
