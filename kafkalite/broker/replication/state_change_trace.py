"""The trace of state changes of this broker's partitions: a line for each of few, a line for many that one request puts in the same state.

A request may change the roles of a hundred thousand partitions, most of which end in a few states. A line for each would take as long as
the changes themselves. Every partition is named in either form, `partition=t-0` or `partitions=t-0,t-1`, with what else the line says.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, Self

from kafkalite.controller.machines.partition_names import ONE_BY_ONE, name_partitions
from kafkalite.types import BrokerId, TopicPartition

logger = logging.getLogger("kafkalite.state_change")

_TOGETHER: Final = 1000
"""Partitions that wait for their lines at most, in each state."""


class StateChangeTrace:
    """The lines about `changes` partitions that change together; `template` is the rest of a line, for the values of a note.

    A context: lines of many are written at its end, or when a thousand partitions wait for theirs.
    """

    __slots__ = ("_broker_id", "_is_off", "_template", "_waiting")

    def __init__(self, broker_id: BrokerId, template: str, changes: int) -> None:
        self._broker_id, self._template = broker_id, template
        self._is_off = not logger.isEnabledFor(logging.INFO)
        self._waiting: dict[tuple[object, ...], list[TopicPartition]] | None = {} if changes > ONE_BY_ONE else None

    def note(self, topic_partition: TopicPartition, *values: object) -> None:
        """Note that a partition changed, with the values for its line; tuples of brokers are written with commas."""
        if self._is_off:
            return
        if self._waiting is None:
            self._write(f"partition={topic_partition}", values)
            return
        together = self._waiting.get(values)
        if together is None:
            together = self._waiting[values] = []
        together.append(topic_partition)
        if len(together) >= _TOGETHER:
            self._write_together(values, self._waiting.pop(values))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Write what waits, also when the rest of the request failed."""
        for values, together in (self._waiting or {}).items():
            self._write_together(values, together)

    def _write_together(self, values: tuple[object, ...], changed: Sequence[TopicPartition]) -> None:
        for names in name_partitions(changed):
            self._write(names, values)

    def _write(self, names: str, values: tuple[object, ...]) -> None:
        told = [",".join(map(str, each)) if isinstance(each, tuple) else each for each in values]
        logger.info(f"broker=%d %s {self._template}", self._broker_id, names, *told)
