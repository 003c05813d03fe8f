"""What only a walk over all logs finds, because time alone brings it: old segments, and producers that were silent for long.

Some minutes lie between two walks. They are done in portions, and a log of which nothing goes is not noted as changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from kafkalite.errors import KafkaError
from kafkalite.portions import Work, idle_units
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.log.retention import find_deletable

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")

_DELETION_UNITS: Final = 8
"""To delete a segment, three files and more are renamed."""


def delete_old_segments(
    logs: Iterable[PartitionLog], is_current: Callable[[PartitionLog], bool], now_ms: int, most: int
) -> Work[int]:
    """Apply retention to the logs that are still current, and return how many segments went, `most` at most."""
    count = 0
    for log in logs:
        if count < most and is_current(log) and find_deletable(log, now_ms):
            deleted = attempt(log, partial(log.delete_old_segments, now_ms, most - count)) or 0
            count += deleted
            yield from idle_units(_DELETION_UNITS * deleted)
        yield
    return count


def expire_producers(logs: Iterable[PartitionLog], now_ms: int, expiration_ms: int) -> Work[None]:
    """Forget the producers that were silent for longer than `expiration_ms`."""
    for log in logs:
        log.producers.expire(now_ms, expiration_ms)
        yield


def attempt(log: PartitionLog, action: Callable[[], _Result]) -> _Result | None:
    """Run a job of upkeep; an error of the disk, which the log's directory has handled, stops nothing else."""
    try:
        return action()
    except KafkaError as problem:
        logger.warning("%s: %s", log.topic_partition, problem)
        return None
