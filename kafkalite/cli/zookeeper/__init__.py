"""`kafkalite zk`, and the connections of commands to ZooKeeper."""
