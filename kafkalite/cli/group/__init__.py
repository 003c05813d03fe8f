"""`kafkalite group`: consumer groups, and where their offsets are moved to."""
