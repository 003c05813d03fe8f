"""At which offset each leader epoch began: what lets a follower find where its log and its leader's part (KIP-101).

Entries (epoch, start offset) grow strictly in both. A new leader notes its epoch at its log end even before it writes; a
follower notes the epochs of the batches that it gets. In `leader-epoch-checkpoint` they stand in the form of `checkpoints`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter

from kafkalite.protocol.record_batches.records import MAGIC, BatchHeader

UNDEFINED = (-1, -1)

_epoch_of = itemgetter(0)
_start_of = itemgetter(1)


class LeaderEpochs:
    """The epochs of one log, oldest first. They seldom change, so `table` is a tuple that others may keep."""

    __slots__ = ("table",)

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self.table: tuple[tuple[int, int], ...] = ()
        for epoch, start in entries:
            self.assign(epoch, start)

    @property
    def latest(self) -> int | None:
        return self.table[-1][0] if self.table else None

    def entries(self) -> list[tuple[int, int]]:
        return list(self.table)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` began at `start_offset`; False when that is not news.

        Entries that begin there or later are no history of this log any more and go.
        """
        if epoch < 0 or (self.table and epoch <= self.table[-1][0]):
            return False
        table = self.table
        if table and table[-1][1] >= start_offset:
            table = table[: bisect_left(table, start_offset, key=_start_of)]
        self.table = (*table, (epoch, start_offset))
        return True

    def follow(self, headers: Iterable[BatchHeader]) -> bool:
        """Note the epochs of batches that were written; False when there is nothing new in them.

        Messages of the formats before (magic 0 and 1) have none. Behind batches that do they end the history: after the next election the
        high watermark is all there is to go by, as in Kafka (UnifiedLog.append).
        """
        changed = False
        for header in headers:
            epoch, table = header.partition_leader_epoch, self.table
            if table and epoch == table[-1][0]:
                continue
            if not table or epoch > table[-1][0]:
                changed |= self.assign(epoch, header.base_offset)
            elif epoch < 0 and header.magic != MAGIC:
                self.clear()
                changed = True
        return changed

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (largest epoch up to `epoch`, offset behind its last record), UNDEFINED when this log knows nothing of it (KIP-279)."""
        table = self.table
        if epoch < 0 or not table:
            return UNDEFINED
        if epoch == table[-1][0]:
            return epoch, log_end_offset
        above = bisect_right(table, epoch, key=_epoch_of)
        if above == len(table):
            return UNDEFINED
        if not above:
            return epoch, table[0][1]
        return table[above - 1][0], table[above][1]

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch in which the record at `offset` was written; None before the first entry."""
        number = bisect_right(self.table, offset, key=_start_of)
        return self.table[number - 1][0] if number else None

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget the epochs that began at `end_offset` or later; False when there are none."""
        kept = bisect_left(self.table, end_offset, key=_start_of)
        if kept == len(self.table):
            return False
        self.table = self.table[:kept]
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget the epochs that ended up to `start_offset`; the one that reaches over it begins there now."""
        number = bisect_right(self.table, start_offset, key=_start_of)
        if not number or (self.table[number - 1][1] == start_offset and number == 1):
            return False
        self.table = ((self.table[number - 1][0], start_offset), *self.table[number:])
        return True

    def clear(self) -> None:
        self.table = ()
