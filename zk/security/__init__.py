"""Whom a connection to ZooKeeper is, how it is encrypted, and to whom znodes belong."""
