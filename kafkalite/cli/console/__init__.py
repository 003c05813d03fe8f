"""`kafkalite console`: the command, and the clusters that it connects to."""
