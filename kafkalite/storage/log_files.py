"""Names in a log directory: of the files of a partition and of the directories that hold partitions.

    <topic>-<partition>/                        a log; the partition is what follows the last '-'
    <topic>-<partition>.<32 hex>-delete/        waits for its removal
    <topic>-<partition>.<32 hex>-future/        a log on its way from another directory
    <topic>-<partition>.<32 hex>-stray/         set aside as unknown (3.7 on); never loaded

    <base offset, 20 digits>.log, .index, .timeindex, .txnindex     a segment and its indexes
    <base offset, 20 digits>.digests                                digests of a segment's records, once somebody asked for them
    <offset, 20 digits>.snapshot                                    producers before that offset
    leader-epoch-checkpoint, partition.metadata                     the former, and indexes, soon after the others
    *.deleted, *.cleaned, *.swap            given up; unfinished compaction; finished compaction being swapped in

A topic name is cut so that the suffixed forms keep within the 255 characters of a file name.
"""

from __future__ import annotations

import sys
from typing import Final

from kafkalite.types import TopicPartition

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
DIGESTS: Final = ".digests"
SNAPSHOT: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)

DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"

DELETE_DIRECTORY: Final = "-delete"
FUTURE_DIRECTORY: Final = "-future"
STRAY_DIRECTORY: Final = "-stray"
NOT_LOGS: Final = frozenset({"remote-log-index-cache", "__cluster_metadata-0"})

_NAME_LIMIT = 255


def offset_name(offset: int, suffix: str) -> str:
    """Return the file name of a segment, index or snapshot."""
    return f"{offset:020d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """Return the offset in a name made by `offset_name`; None when it is no such name."""
    if not name.endswith(suffix):
        return None
    digits = name[: -len(suffix)]
    return int(digits) if digits.isdecimal() else None


def suffixed_directory(topic_partition: TopicPartition, unique: str, suffix: str) -> str:
    """Return the name of a partition's directory that is to be deleted or moved; `unique` has 32 characters."""
    tail = f"-{topic_partition.partition}.{unique}{suffix}"
    return topic_partition.topic[: _NAME_LIMIT - len(tail)] + tail


def partition_of(name: str) -> TopicPartition | None:
    """Return the partition whose live log lies in a directory of this name; None when the name is no partition's."""
    topic, dash, number = name.rpartition("-")
    if not (topic and dash and number.isdecimal() and number.isascii()):
        return None
    return TopicPartition(sys.intern(topic), int(number))
