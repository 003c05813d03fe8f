"""`kafkalite context`, and the settings with which a command connects to a cluster."""
