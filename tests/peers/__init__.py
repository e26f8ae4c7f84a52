"""Real peers that tests run against."""
