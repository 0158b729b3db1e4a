"""Speed, measured beside a stated baseline in the same run."""
