"""Real brokers under load while something goes wrong, judged by what is promised."""
