"""`kafkalite context`, and which settings a command calls a cluster with."""
