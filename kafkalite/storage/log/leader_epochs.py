"""At which offset each leader epoch began: what lets a follower find where its log and its leader's part (KIP-101).

Entries (epoch, start offset) grow strictly in both. A new leader notes its epoch at its log end even before it writes; a
follower notes the epochs of the batches that it gets. In `leader-epoch-checkpoint` they stand in the form of `checkpoints`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from kafkalite.protocol.record_batches.records import MAGIC, BatchHeader

UNDEFINED = (-1, -1)


class LeaderEpochs:
    """The epochs of one log, oldest first."""

    __slots__ = ("epochs", "starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self.epochs: list[int] = []
        self.starts: list[int] = []
        for epoch, start in entries:
            self.assign(epoch, start)

    @property
    def latest(self) -> int | None:
        return self.epochs[-1] if self.epochs else None

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self.epochs, self.starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` began at `start_offset`; False when that is not news.

        Entries that begin there or later are no history of this log any more and go.
        """
        if epoch < 0 or (self.epochs and epoch <= self.epochs[-1]):
            return False
        kept = bisect_left(self.starts, start_offset)
        del self.epochs[kept:], self.starts[kept:]
        self.epochs.append(epoch)
        self.starts.append(start_offset)
        return True

    def follow(self, headers: Iterable[BatchHeader]) -> bool:
        """Note the epochs of batches that were written; False when there is nothing new in them.

        Messages of the formats before (magic 0 and 1) have none. Behind batches that do they end the history: after the next election the
        high watermark is all there is to go by, as in Kafka (UnifiedLog.append).
        """
        changed = False
        for header in headers:
            epoch = header.partition_leader_epoch
            if not self.epochs or epoch > self.epochs[-1]:
                changed |= self.assign(epoch, header.base_offset)
            elif epoch < 0 and header.magic != MAGIC:
                self.clear()
                changed = True
        return changed

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (largest epoch up to `epoch`, offset behind its last record), UNDEFINED when this log knows nothing of it (KIP-279)."""
        if epoch < 0 or not self.epochs:
            return UNDEFINED
        if epoch == self.epochs[-1]:
            return epoch, log_end_offset
        above = bisect_right(self.epochs, epoch)
        if above == len(self.epochs):
            return UNDEFINED
        if not above:
            return epoch, self.starts[0]
        return self.epochs[above - 1], self.starts[above]

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch in which the record at `offset` was written; None before the first entry."""
        number = bisect_right(self.starts, offset)
        return self.epochs[number - 1] if number else None

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget the epochs that began at `end_offset` or later; False when there are none."""
        kept = bisect_left(self.starts, end_offset)
        if kept == len(self.starts):
            return False
        del self.epochs[kept:], self.starts[kept:]
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget the epochs that ended up to `start_offset`; the one that reaches over it begins there now."""
        number = bisect_right(self.starts, start_offset)
        if not number or (self.starts[number - 1] == start_offset and number == 1):
            return False
        del self.epochs[: number - 1], self.starts[: number - 1]
        self.starts[0] = start_offset
        return True

    def clear(self) -> None:
        self.epochs.clear()
        self.starts.clear()
