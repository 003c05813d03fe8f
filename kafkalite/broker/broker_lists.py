"""One object for equal lists of brokers: a broker keeps some for each of a hundred thousand partitions, and few of them differ."""

from __future__ import annotations

from typing import Final

from kafkalite.types import BrokerId

_KEPT: Final = 10_000


class BrokerLists:
    """Replicas and ISRs as they came from the controller. Whoever gets one must not change it."""

    __slots__ = ("_lists", "_tuples")

    def __init__(self) -> None:
        self._lists: dict[tuple[BrokerId, ...], list[BrokerId]] = {}
        self._tuples: dict[tuple[BrokerId, ...], tuple[BrokerId, ...]] = {}

    def share_list(self, brokers: list[BrokerId]) -> list[BrokerId]:
        """Return a list with these brokers, the same one for the same brokers."""
        if len(self._lists) >= _KEPT:
            self._lists.clear()
        return self._lists.setdefault(tuple(brokers), brokers)

    def share_tuple(self, brokers: list[BrokerId]) -> tuple[BrokerId, ...]:
        """Return a tuple with these brokers, the same one for the same brokers."""
        if len(self._tuples) >= _KEPT:
            self._tuples.clear()
        found = tuple(brokers)
        return self._tuples.setdefault(found, found)
