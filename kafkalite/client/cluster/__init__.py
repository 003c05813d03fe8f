"""A client's way to the cluster: what it knows of it, its connections, and when to try again."""
