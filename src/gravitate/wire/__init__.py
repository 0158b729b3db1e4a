"""Messages to bytes and back."""
