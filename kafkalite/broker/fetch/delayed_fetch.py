"""A fetch that waits for more records (Kafka's DelayedFetch): when it reads again, and when it completes.

It completes once its partitions gained min.bytes, something other than an append happened to one of them, or max.wait passed. A follower's
completes also soon after a high watermark moved, so that it learns what is committed. If reading or responding fails, the future raises
the error and dispatch makes the response of it, so no client waits for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from kafkalite.broker.replication.partition import Partition
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.fetch.fetch_sessions import Answers
    from kafkalite.broker.fetch.partition_reader import FetchParams, ReadAnswers
    from kafkalite.portions import Portions
    from kafkalite.protocol import messages

_HIGH_WATERMARK_DELAY_S: Final = 0.005
"""Delay of a new high watermark, so that it is sent with records; under load there always are some."""
_CHECKED_AT_ONCE: Final = 64
"""Largest fetch that is read again on every append. Larger ones take turns, because one append may wake a thousand of them."""
_PARTITIONS_IN_A_UNIT: Final = 8


class DelayedFetch:
    """A fetch that has fewer than min.bytes; `future` gets `respond(answers)`, or raises what `read` or `respond` raised.

    `read()` reads all that is ready, like `PartitionReader.read_all`. The bytes gained meanwhile are estimated from the growth of the
    logs, so that waiting for many bytes does not read the same ones again and again. `release()` is called once, at the end.
    `count_items()` returns how many partitions `read` would read.
    """

    def __init__(
        self,
        params: FetchParams,
        have_bytes: int,
        read: Callable[[], ReadAnswers],
        respond: Callable[[Answers], messages.fetch_response.FetchResponse],
        release: Callable[[], None],
        count_items: Callable[[], int],
        portions: Portions,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[messages.fetch_response.FetchResponse] = self._loop.create_future()
        self._params, self._read, self._respond, self._release = params, read, respond, release
        self._count_items, self._portions = count_items, portions
        self._turn: asyncio.Future[None] | None = None
        self._is_expired = False
        self._have_bytes = have_bytes
        self._sizes: dict[TopicPartition, int] = {}
        self._gained = 0
        self._check: asyncio.Handle | None = None
        self._high_watermark_timer: asyncio.TimerHandle | None = None
        self._deadline = self._loop.call_later(params.max_wait_ms / 1000, self._expire)
        self._is_closed = False

    def note_sizes(self, partitions: Iterable[Partition]) -> None:
        """Count the growth of these logs from now on, where more than one byte is waited for."""
        if self._params.min_bytes > 1:
            self._sizes = {p.topic_partition: p.log.size_bytes for p in partitions}

    def notify(self, partition: Partition, appended: bool) -> None:
        """Schedule a check because a partition changed; `appended` is False for a high watermark, which can wait a little."""
        if self._is_closed:
            return
        if not appended:
            self.expire_soon()
        elif self._check is None and self._may_suffice(partition):
            self._check = self._loop.call_soon(self._run_check)

    def _may_suffice(self, partition: Partition) -> bool:
        """True if the partitions may have grown by what is missing, as one may whose size was not noted."""
        min_bytes = self._params.min_bytes
        if min_bytes <= 1 or not partition.is_leader:
            return True
        size = partition.log.size_bytes
        noted = self._sizes.get(partition.topic_partition)
        self._gained += min_bytes if noted is None else max(0, size - noted)
        self._sizes[partition.topic_partition] = size
        return self._have_bytes + self._gained >= min_bytes

    def expire_soon(self) -> None:
        """Complete within 5 ms, so that a new high watermark can be sent with records."""
        if self._high_watermark_timer is None:
            self._high_watermark_timer = self._loop.call_later(_HIGH_WATERMARK_DELAY_S, self._expire)

    def _run_check(self) -> None:
        self._check = None
        self._try_in_turn()

    def _expire(self) -> None:
        self._is_expired = True
        self._try_in_turn()

    def _try_in_turn(self) -> None:
        count = self._count_items()
        if count <= _CHECKED_AT_ONCE:
            self._try_complete()
        elif self._turn is None:
            self._turn = self._portions.short_turn(count // _PARTITIONS_IN_A_UNIT)
            self._turn.add_done_callback(self._run_turn)

    def _run_turn(self, turn: asyncio.Future[None]) -> None:
        self._turn = None
        if not turn.cancelled():
            self._try_complete()

    def _try_complete(self) -> None:
        """Read again; complete if that is enough or the fetch has expired (DelayedOperation.tryComplete)."""
        if self._is_closed:
            return
        if self.future.done():  # cancelled with its connection, whose task has not run yet
            self.close()
            return
        try:
            answers, total, urgent = self._read()
            if not (self._is_expired or urgent or total >= self._params.min_bytes):
                return
            self.close()
            self.future.set_result(self._respond(answers))
        except Exception as problem:
            self.future.set_exception(problem)
            self.close()

    def close(self) -> None:
        """Stop waiting; the future is left as it is."""
        if not self._is_closed:
            self._is_closed = True
            for handle in (self._deadline, self._check, self._high_watermark_timer, self._turn):
                if handle is not None:
                    handle.cancel()
            self._release()
