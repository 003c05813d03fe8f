"""Everything about ZooKeeper: paths, znodes, the store port, sessions, watches, and real ensembles; knows nothing of kafkalite."""
