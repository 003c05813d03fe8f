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

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kafkalite.testing.containers.broker import KafkaliteContainer
    from kafkalite.testing.containers.cluster import KafkaliteCluster
    from kafkalite.testing.containers.ensemble import ZooKeeperEnsemble
    from kafkalite.testing.containers.server import default_image

__all__ = ["KafkaliteCluster", "KafkaliteContainer", "ZooKeeperEnsemble", "default_image"]

_HOMES: Final = {
    "KafkaliteCluster": "cluster",
    "KafkaliteContainer": "broker",
    "ZooKeeperEnsemble": "ensemble",
    "default_image": "server",
}


def __getattr__(name: str) -> Any:
    """Each is loaded at its first use: `neighbours` runs inside containers, which have no testcontainers."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import_module("testcontainers")
    except ImportError as problem:
        raise ImportError("clusters in containers need testcontainers: pip install 'kafkalite[testing]'") from problem
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
