"""Records that iteration has taken from the consumer and has not given to the program yet.

They are kept backwards in a plain list, so that `pop()` gives the next one as cheaply as can be. For the program they are unread: its
position in a partition is before the first of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafkalite.client.consumer_record import ConsumerRecord
from kafkalite.types import TopicPartition

UngivenRecords = list[ConsumerRecord]


def ungiven(found: Mapping[TopicPartition, Iterable[ConsumerRecord]]) -> UngivenRecords:
    """Return the records of one call in the order in which `pop` gives them."""
    records: UngivenRecords = []
    for each in found.values():
        records += each
    records.reverse()
    return records


def first_offset(records: UngivenRecords, topic_partition: TopicPartition) -> int | None:
    """Return the offset of the first record of a partition, the program's position; None without one."""
    return next((each.offset for each in reversed(records) if each.topic_partition == topic_partition), None)


def first_offsets(records: UngivenRecords) -> dict[TopicPartition, int]:
    """`first_offset` of every partition that has records here."""
    return {each.topic_partition: each.offset for each in records}


def only_of(records: UngivenRecords, partitions: Collection[TopicPartition]) -> UngivenRecords:
    """Return the records of these partitions."""
    return [each for each in records if each.topic_partition in partitions]


def none_of(records: UngivenRecords, partitions: Collection[TopicPartition]) -> UngivenRecords:
    """Return the records of all other partitions."""
    return [each for each in records if each.topic_partition not in partitions]
