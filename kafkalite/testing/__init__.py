"""For tests of what uses kafkalite, and of kafkalite itself: real clusters, of processes (`LocalCluster`) or of containers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kafkalite.testing.cluster import Cluster
    from kafkalite.testing.containers import KafkaliteCluster, KafkaliteContainer, ZooKeeperEnsemble
    from kafkalite.testing.local_cluster import LocalCluster

__all__ = ["Cluster", "KafkaliteCluster", "KafkaliteContainer", "LocalCluster", "ZooKeeperEnsemble"]

_HOMES: Final = {
    "Cluster": "cluster",
    "KafkaliteCluster": "containers",
    "KafkaliteContainer": "containers",
    "LocalCluster": "local_cluster",
    "ZooKeeperEnsemble": "containers",
}


def __getattr__(name: str) -> Any:
    """Each class is loaded at its first use: containers need the extra `kafkalite[testing]`, the others do not."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
