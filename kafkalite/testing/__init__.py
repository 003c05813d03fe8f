"""For tests of what uses kafkalite, and of kafkalite itself: real clusters, of processes (`LocalCluster`) or of containers.

`containers` runs clusters in Docker, `simulation` whole ones in one process on virtual time (users' programs too: `simulate`), `workloads`
keeps them busy, `history` records what clients saw and judges it; `pytest_plugin` gives users' tests their fixtures. Clusters of processes
are product code and live in `kafkalite.local`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kafkalite.local.cluster import LocalCluster as LocalCluster
    from kafkalite.local.contract import Cluster as Cluster
    from kafkalite.local.faults import Fault as Fault
    from kafkalite.local.faults import Faults as Faults
    from kafkalite.local.frozen import FrozenCluster as FrozenCluster
    from kafkalite.testing.containers import KafkaliteCluster as KafkaliteCluster
    from kafkalite.testing.containers import KafkaliteContainer as KafkaliteContainer
    from kafkalite.testing.containers import ZooKeeperEnsemble as ZooKeeperEnsemble
    from kafkalite.testing.simulation.programs import SimulatedFaults as SimulatedFaults
    from kafkalite.testing.simulation.programs import SimulationFailed as SimulationFailed
    from kafkalite.testing.simulation.programs import World as World
    from kafkalite.testing.simulation.programs import simulate as simulate

_NAMES_OF: Final = {
    "kafkalite.local.cluster": "LocalCluster",
    "kafkalite.local.contract": "Cluster",
    "kafkalite.local.faults": "Fault Faults",
    "kafkalite.local.frozen": "FrozenCluster",
    "kafkalite.testing.containers": "KafkaliteCluster KafkaliteContainer ZooKeeperEnsemble",
    "kafkalite.testing.simulation.programs": "SimulatedFaults SimulationFailed World simulate",
}
_HOMES: Final = {name: module for module, names in _NAMES_OF.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Each name is loaded at its first use: containers need the extra `kafkalite[testing]`, the others do not."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
