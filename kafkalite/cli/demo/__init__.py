"""`kafkalite demo`: the flights of 2013 through a cluster, and a night on Spark."""
