"""Records that iteration has taken from the consumer and has not given to the program yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafkalite.client.records import ConsumerRecord
from kafkalite.types import TopicPartition


class UngivenRecords(list[ConsumerRecord]):
    """Backwards, so that `pop()` gives the next one. For the program these records are unread: its position is before them."""

    def fill(self, found: Mapping[TopicPartition, Iterable[ConsumerRecord]]) -> None:
        """Take what was read, when the earlier ones are given."""
        self[:] = [record for records in found.values() for record in records]
        self.reverse()

    def first_offset(self, topic_partition: TopicPartition) -> int | None:
        """Where the program stands in a partition of which there are records here."""
        for record in reversed(self):
            if record.topic_partition == topic_partition:
                return record.offset
        return None

    def first_offsets(self) -> dict[TopicPartition, int]:
        """`first_offset` for every partition that has records here."""
        return {record.topic_partition: record.offset for record in self}

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the records of all other partitions."""
        self[:] = [record for record in self if record.topic_partition in partitions]

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the records of these partitions."""
        self[:] = [record for record in self if record.topic_partition not in partitions]
