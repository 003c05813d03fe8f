"""A fetch that waits for more (Kafka's DelayedFetch): when it looks again, and when it answers.

It is answered once its partitions gained min.bytes, something other than data happened to one of them, or max.wait passed. A follower
is also answered soon after the high watermark moved, so that it learns what is committed. Whatever goes wrong meanwhile is its answer too:
the future raises it, and dispatch shapes the reply, so no client waits for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from kafkalite.broker.replication.partition import Partition
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.fetch.partition_reader import Answers, FetchParams
    from kafkalite.portions import Portions
    from kafkalite.protocol import messages

_HIGH_WATERMARK_DELAY_S: Final = 0.005
"""How long news of the high watermark alone waits for records to travel with; under load there always are some."""
_NARROW: Final = 64
"""Partitions that are looked at whenever there is a reason: of more, a thousand fetches may have the same reason."""
_PARTITIONS_IN_A_UNIT: Final = 8


class DelayedFetch:
    """See the module. `future` gets `reply(answers)`, with fresh answers for all that is ready, or what `gather` or `reply` raised.

    `gather()` reads what is there now and gives (answers, bytes, urgent). The bytes gained meanwhile are estimated from the growth of
    the logs, so that waiting for many bytes does not read the same ones again and again. `release()` is called once, at the end.
    `width()` is how many partitions a look would look at: very many are looked at when it is their turn.
    """

    def __init__(
        self,
        params: FetchParams,
        have_bytes: int,
        gather: Callable[[], tuple[Answers, int, bool]],
        reply: Callable[[Answers], messages.fetch_response.FetchResponse],
        release: Callable[[], None],
        width: Callable[[], int],
        portions: Portions,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[messages.fetch_response.FetchResponse] = self._loop.create_future()
        self._params, self._gather, self._reply, self._release = params, gather, reply, release
        self._width, self._portions = width, portions
        self._turn: asyncio.Future[None] | None = None
        self._is_due = False
        self._have_bytes = have_bytes
        self._sizes: dict[TopicPartition, int] = {}
        self._gained = 0
        self._check: asyncio.Handle | None = None
        self._news: asyncio.TimerHandle | None = None
        self._deadline = self._loop.call_later(params.max_wait_ms / 1000, self._expire)
        self._is_closed = False

    def note_sizes(self, partitions: Iterable[Partition]) -> None:
        """Growth is counted from here; only needed when more than one byte is waited for."""
        if self._params.min_bytes > 1:
            self._sizes = {p.topic_partition: p.log.size_bytes for p in partitions}

    def notify(self, partition: Partition, appended: bool) -> None:
        """A partition changed; `appended` is False for news that can wait a little. Only schedules: its caller serves somebody else."""
        if self._is_closed:
            return
        if not appended:
            self.expire_soon()
        elif self._check is None and self._may_suffice(partition):
            self._check = self._loop.call_soon(self._look)

    def _may_suffice(self, partition: Partition) -> bool:
        """Have the partitions grown by what is missing? One whose size was not noted may have."""
        min_bytes = self._params.min_bytes
        if min_bytes <= 1 or not partition.is_leader:
            return True
        size = partition.log.size_bytes
        noted = self._sizes.get(partition.topic_partition)
        self._gained += min_bytes if noted is None else max(0, size - noted)
        self._sizes[partition.topic_partition] = size
        return self._have_bytes + self._gained >= min_bytes

    def expire_soon(self) -> None:
        """There is news that may wait a little for records to travel with."""
        if self._news is None:
            self._news = self._loop.call_later(_HIGH_WATERMARK_DELAY_S, self._expire)

    def _look(self) -> None:
        self._check = None
        self._answer_in_turn()

    def _expire(self) -> None:
        self._is_due = True
        self._answer_in_turn()

    def _answer_in_turn(self) -> None:
        width = self._width()
        if width <= _NARROW:
            self._answer(only_if_enough=not self._is_due)
        elif self._turn is None:
            self._turn = self._portions.short_turn(width // _PARTITIONS_IN_A_UNIT)
            self._turn.add_done_callback(self._have_turn)

    def _have_turn(self, turn: asyncio.Future[None]) -> None:
        self._turn = None
        if not turn.cancelled():
            self._answer(only_if_enough=not self._is_due)

    def _answer(self, only_if_enough: bool) -> None:
        if self._is_closed:
            return
        if self.future.done():  # cancelled with its connection, whose task has not had its turn yet
            self.close()
            return
        try:
            answers, total, urgent = self._gather()
            if only_if_enough and not urgent and total < self._params.min_bytes:
                return
            self.close()
            self.future.set_result(self._reply(answers))
        except Exception as problem:
            self.future.set_exception(problem)
            self.close()

    def close(self) -> None:
        """Wait no more; the future is left as it is."""
        if not self._is_closed:
            self._is_closed = True
            for handle in (self._deadline, self._check, self._news, self._turn):
                if handle is not None:
                    handle.cancel()
            self._release()
