"""Runs in which transactions are what suffers: consume, transform, produce, while clients die beside brokers."""
