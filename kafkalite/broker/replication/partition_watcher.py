"""Who is notified when a partition changes: fetches that wait for records or for the high watermark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeVar

PartitionT = TypeVar("PartitionT", contravariant=True)


class Watcher(Protocol[PartitionT]):
    """Notified when a partition has more to fetch; called often, must be quick, and must not call the partition back."""

    def on_append(self, partition: PartitionT) -> None:
        """Called when the log end offset moved or this broker stopped leading the partition."""

    def on_leader_epoch(self, partition: PartitionT) -> None:
        """Called when this broker leads the partition in a new leader epoch."""

    def on_high_watermark(self, partition: PartitionT) -> None:
        """Called when more records are committed."""

    def on_isr_exit(self, partition: PartitionT) -> None:
        """Called when a replica that was in the ISR, or was about to join it, is outside."""


NO_WATCHERS: Final[Mapping[Watcher[Any], None]] = {}
