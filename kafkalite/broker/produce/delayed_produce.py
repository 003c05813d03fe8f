"""A produce request that waits for replication (Kafka's DelayedProduce): answered when all its records are committed, or at its timeout.

An error meanwhile is its response too: the future raises it, and dispatch makes the reply, so no producer waits for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from kafkalite.broker.replication.effects import AckWait
from kafkalite.broker.replication.partition import Partition
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages

PartitionAnswer: TypeAlias = messages.produce_response.PartitionProduceResponse
Reply: TypeAlias = messages.produce_response.ProduceResponse


_WITHOUT_LOG_START: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
)


def find_refusal_log_start(partition: Partition | None, code: ErrorCode) -> int:
    """Return the log start offset of the refusal of an append: that of the log, for some codes -1 (ReplicaManager)."""
    return -1 if partition is None or code in _WITHOUT_LOG_START else partition.log.log_start_offset


class AwaitedRecords(NamedTuple):
    """Records of one partition up to `required_offset`, and the part of the reply that gets their outcome."""

    partition: Partition
    required_offset: int
    answer: PartitionAnswer


class DelayedProduce:
    """One request. `future` gets `reply`, with REQUEST_TIMED_OUT for partitions that are not committed after `timeout_ms`.

    `complete` adds the new leaders of partitions that are no longer led here, once all outcomes are known.
    """

    def __init__(
        self,
        reply: Reply,
        awaited: Sequence[AwaitedRecords],
        timeout_ms: int,
        complete: Callable[[Reply], None] = lambda reply: None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Reply] = loop.create_future()
        self._reply, self._complete = reply, complete
        self._pending: dict[int, tuple[AwaitedRecords, AckWait | None]] = {
            number: (each, None) for number, each in enumerate(awaited)
        }
        self._timer = loop.call_later(max(0, timeout_ms) / 1000, self._expire)
        for number, each in enumerate(awaited):
            wait = each.partition.when_committed(each.required_offset, partial(self._complete_partition, number))
            if wait is not None:
                self._pending[number] = (each, wait)

    def _complete_partition(self, number: int, code: ErrorCode) -> None:
        found = self._pending.pop(number, None)
        if found is None:  # it timed out
            return
        _set_outcome(found[0].answer, code)
        if not self._pending:
            self._timer.cancel()
            self._complete_reply()

    def _expire(self) -> None:
        try:
            for each, wait in self._pending.values():
                _set_outcome(each.answer, ErrorCode.REQUEST_TIMED_OUT)
                if wait is not None:
                    each.partition.forget_wait(wait)
            self._pending.clear()
            self._complete_reply()
        except Exception as problem:
            self.future.set_exception(problem)

    def _complete_reply(self) -> None:
        if not self.future.done():  # else the broker gave up its requests, at shutdown
            self._complete(self._reply)
            self.future.set_result(self._reply)


def _set_outcome(answer: PartitionAnswer, code: ErrorCode) -> None:
    answer.error_code = code
    if code:
        answer.base_offset = -1
