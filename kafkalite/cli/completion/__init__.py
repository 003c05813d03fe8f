"""`kafkalite completion`, and what answers a shell at TAB."""
