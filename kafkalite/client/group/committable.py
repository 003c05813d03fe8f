"""What programs give to be committed, in the form in which it is committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkalite.client.records import OffsetAndMetadata
from kafkalite.types import TopicPartition

Committable = int | tuple[int, str] | OffsetAndMetadata
"""What can be committed for a partition: the offset of the next record to read, alone or with a note."""
OnCommit = Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], None]
"""Called with what was to be committed, and the error when it was not."""


def committable(offsets: Mapping[TopicPartition, Committable]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets with notes, from what programs give: an offset, a pair of offset and note, or both as `OffsetAndMetadata`."""
    found = {}
    for each, given in offsets.items():
        if isinstance(given, int):
            found[TopicPartition(*each)] = OffsetAndMetadata(given)
        elif isinstance(given, tuple):
            found[TopicPartition(*each)] = OffsetAndMetadata(*given)
        else:
            found[TopicPartition(*each)] = given
    return found
