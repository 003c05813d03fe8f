"""`kafkalite cluster up|info|health|watch`."""
