"""One object for partitions in the same state: a broker keeps the metadata of a hundred thousand, and few of their states differ.

So it is with the brokers, all of which a controller names whenever the state of one partition changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafkalite.controller.control_requests import LiveBroker, PartitionMetadata
from kafkalite.types import BrokerId

_KEPT: Final = 10_000
"""States that are remembered; beyond that, equal ones may be several objects."""


class SharedStates:
    """Metadata of partitions as it came from the controller. Nobody may change what is returned."""

    __slots__ = ("_brokers", "_lists", "_partitions", "_told_brokers")

    def __init__(self) -> None:
        self._lists: dict[tuple[BrokerId, ...], list[BrokerId]] = {}
        self._partitions: dict[tuple[object, ...], PartitionMetadata] = {}
        self._told_brokers: list[Any] = []
        self._brokers: list[LiveBroker] = []

    def share_brokers(self, told: list[Any], read: Callable[[list[Any]], list[LiveBroker]]) -> list[LiveBroker]:
        """Return what `read` makes of the brokers of a request, which are mostly the very objects of the request before."""
        if told is not self._told_brokers:
            self._told_brokers, self._brokers = told, read(told)
        return self._brokers

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
