"""`kafkalite perf`: load on a cluster, measured."""
