"""`kafkalite zk`, and how commands reach ZooKeeper."""
