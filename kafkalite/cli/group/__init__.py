"""`kafkalite group`: consumer groups, and the reset of their offsets."""
