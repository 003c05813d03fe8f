"""ZooKeeper's client protocol without I/O: bytes in, replies and events out. `zk.native` has the thread and the store over it."""
