"""The jars of an Apache ZooKeeper server. `kafkalite cluster up` finds them here, and so can any program that starts a server."""

from pathlib import Path


def jar_folder() -> Path:
    """Return the folder whose jars are the class path of `org.apache.zookeeper.server.quorum.QuorumPeerMain`."""
    return Path(__file__).with_name("jars")
