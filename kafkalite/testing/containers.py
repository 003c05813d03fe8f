"""ZooKeeper and brokers in containers, through testcontainers: the extra `kafkalite[testing]`, and Docker.

    >>> from kafkalite.client import SyncProducer
    >>> from kafkalite.testing.containers import KafkaliteCluster
    >>> replicated = {"default.replication.factor": "3", "min.insync.replicas": "2"}
    >>> with KafkaliteCluster(brokers=3, zookeepers=1, racks=["north", "south", "west"], properties=replicated) as cluster:
    ...     with SyncProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
    ...         before = producer.send_and_wait("orders", b"one", partition=0)
    ...         leader = cluster.leader_of("orders", 0)
    ...         cluster.kill(leader)
    ...         after = producer.send_and_wait("orders", b"two", partition=0)
    ...     assert cluster.leader_of("orders", 0) != leader
    ...     cluster.restart(leader)
    ...     (before.offset, after.offset)
    (0, 1)

The image is `kafkalite:<version>`, made by `deploy/build-image`; the variable KAFKALITE_IMAGE or `image=` names another.
"""

from __future__ import annotations

try:
    import testcontainers as _  # noqa: F401
except ImportError as _problem:
    raise ImportError("clusters in containers need testcontainers: pip install 'kafkalite[testing]'") from _problem

from kafkalite.testing.container_broker import KafkaliteContainer
from kafkalite.testing.container_cluster import KafkaliteCluster
from kafkalite.testing.container_ensemble import ZooKeeperEnsemble
from kafkalite.testing.server_container import default_image

__all__ = ["KafkaliteCluster", "KafkaliteContainer", "ZooKeeperEnsemble", "default_image"]
