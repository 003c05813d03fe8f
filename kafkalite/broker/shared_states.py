"""One object for partitions in the same state: a broker keeps the metadata of a hundred thousand, and few of their states differ."""

from __future__ import annotations

from typing import Final

from kafkalite.controller.control_requests import PartitionMetadata
from kafkalite.types import BrokerId

_KEPT: Final = 10_000
"""States that are remembered; beyond that, equal ones may be several objects."""


class SharedStates:
    """Metadata of partitions as it came from the controller. Nobody may change what is returned."""

    __slots__ = ("_lists", "_partitions")

    def __init__(self) -> None:
        self._lists: dict[tuple[BrokerId, ...], list[BrokerId]] = {}
        self._partitions: dict[tuple[object, ...], PartitionMetadata] = {}

    def share_partition(
        self,
        leader: BrokerId,
        leader_epoch: int,
        isr: list[BrokerId],
        replicas: list[BrokerId],
        offline_replicas: list[BrokerId],
        partition_epoch: int,
        controller_epoch: int,
    ) -> PartitionMetadata:
        """Return the metadata of a partition in this state, the same object for the same state."""
        lists = tuple(isr), tuple(replicas), tuple(offline_replicas)
        key = (leader, leader_epoch, lists, partition_epoch, controller_epoch)
        known = self._partitions.get(key)
        if known is None:
            if len(self._partitions) >= _KEPT:
                self._partitions.clear()
                self._lists.clear()
            isr, replicas, offline_replicas = (self._lists.setdefault(each, list(each)) for each in lists)
            known = PartitionMetadata(
                leader, leader_epoch, isr, replicas, offline_replicas, partition_epoch, controller_epoch
            )
            self._partitions[key] = known
        return known
