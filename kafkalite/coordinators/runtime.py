"""The runtime of coordinator machines on the partitions of an internal topic (Kafka's CoordinatorRuntime).

Everything happens on the event loop without an await between a decision and its effects, so the loop owns all machines.

The states of a shard, one for each partition that this broker leads:

1. Loading, after `on_election`: a new machine; requests get COORDINATOR_LOAD_IN_PROGRESS. The log is read in chunks, with pauses for the
   event loop; one shard reads at a time.
2. What was read is not served before it is committed, so no offset is returned that is lost with this leader. The wait is bounded by
   the append timeout, because a partition without enough replicas must still be readable.
3. Serving: each `Append` is one batch; its records are applied once the high watermark has passed them, in the order of the log, and
   then its `then` is called.
4. Unloaded, after `on_resignation` or an append's error that another broker leads: open tickets get NOT_COORDINATOR.

A new leader epoch of a partition that this broker leads already changes nothing: the log was not truncated, pending appends stay valid.
Elections and resignations of epochs before the newest one seen are ignored.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

from kafkalite.clock import Clock
from kafkalite.coordinators.batch_reader import read_batch
from kafkalite.coordinators.contract import (
    Append,
    Decision,
    InternalLog,
    LogRecord,
    Machine,
    Now,
    Ticket,
    TimerKey,
)
from kafkalite.coordinators.placement import partition_for
from kafkalite.errors import ErrorCode, InvariantBroken, KafkaError, ensure
from kafkalite.failpoints import reach
from kafkalite.lifecycle import RETRIES, report
from kafkalite.protocol.record_batches.records import TRANSACTIONAL, NewRecord, build_batch, iter_batches, read_marker
from kafkalite.storage.producers.verification import UNGUARDED
from kafkalite.timer_queue import TimerQueue

logger = logging.getLogger("kafkalite.coordinators")

MachineT = TypeVar("MachineT", bound=Machine)
ShapedT = TypeVar("ShapedT")

_RECORDS_BETWEEN_PAUSES: Final = 500
"""Records applied while loading between pauses for the event loop: a few milliseconds."""
_COMMITTED: Final = frozenset({ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
_APPEND_TIMEOUT: Final = "append timeout"
"""The runtime's own timer of a shard; those of machines are tuples."""


@dataclass(frozen=True, slots=True)
class HostingRules:
    """Settings for hosting the machines of one internal topic."""

    load_buffer_bytes: int
    append_timeout_ms: int
    codec: int
    required_acks: int
    """With -1 records are applied once they are committed, otherwise once they are appended."""


class _OpenTicket(Ticket):
    """A request that a machine has not answered. Most are answered while `decide` runs, and never get a future."""

    __slots__ = ("answered", "failure", "future", "reply", "shape", "waiting")

    def __init__(self, shape: Callable[[Any], Any], waiting: dict[_OpenTicket, None]) -> None:
        self.shape, self.waiting = shape, waiting
        self.future: asyncio.Future[Any] | None = None
        self.answered = False
        self.failure: KafkaError | None = None
        self.reply: Any = None

    def answer(self, reply: Any) -> None:
        if self.failure is not None:  # the machine does not know of the failure
            return
        ensure(not self.answered, "a request was answered twice")
        try:
            self.reply = self.shape(reply)
        except Exception as problem:  # only this request fails: the decision has other replies, and records
            report("shaping an answer failed", problem)
            self.fail()
            return
        self.answered = True
        if self.future is not None:
            self.waiting.pop(self, None)
            if not self.future.done():
                self.future.set_result(self.reply)

    def fail(self) -> None:
        """Fail the request after an unexpected error, because the machine may never answer it."""
        if not self.answered:
            self.failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The server met an unexpected error.")
            self.answered = True
            self.waiting.pop(self, None)
            if self.future is not None and not self.future.done():
                self.future.set_exception(self.failure)

    def refuse(self, code: ErrorCode) -> None:
        self.answered = True
        if self.future is not None and not self.future.done():
            self.future.set_exception(KafkaError(code))


class _InFlight:
    """An append that is not committed yet; `cause` is its request, if any."""

    __slots__ = ("append", "cause", "deadline_ms", "end_offset", "first_offset", "is_timed_out")

    def __init__(self, append: Append, cause: _OpenTicket | None, first_offset: int, deadline_ms: int) -> None:
        self.append, self.cause, self.first_offset, self.deadline_ms = append, cause, first_offset, deadline_ms
        self.end_offset = first_offset + len(append.records)
        self.is_timed_out = False


class Shard(Generic[MachineT]):
    """One partition of the internal topic and its machine."""

    def __init__(self, partition: int, leader_epoch: int, log: InternalLog, machine: MachineT) -> None:
        self.partition, self.leader_epoch, self.log, self.machine = partition, leader_epoch, log, machine
        self.loaded = self.closed = False
        self.replayed_to = log.start_offset
        """End offset of the records that were applied while loading."""
        self.timers: TimerQueue[TimerKey] = TimerQueue()
        self.alarm: asyncio.TimerHandle | None = None
        self.alarm_ms: float | None = None
        self.waiting: dict[_OpenTicket, None] = {}
        self.in_flight: deque[_InFlight] = deque()


def _refuse_message(partition: int, message: Any) -> None:
    raise InvariantBroken(f"partition {partition}: a machine sends {message!r}, and the runtime has no `send`")


class CoordinatorRuntime(Generic[MachineT]):
    """The machines of one internal topic on this broker.

    `new_machine(partition)` makes an empty machine; `partition_count()` is the topic's; `spawn(coroutine, name)` runs a supervised
    task; `fatal(reason)` stops the broker; `send(partition, message)` delivers messages of machines.
    """

    def __init__(
        self,
        topic: str,
        rules: HostingRules,
        new_machine: Callable[[int], MachineT],
        partition_count: Callable[[], int],
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None], str], Any],
        fatal: Callable[[str], None],
        send: Callable[[int, Any], None] = _refuse_message,
    ) -> None:
        self.topic, self.rules = topic, rules
        self._new_machine, self.partition_count, self._clock = new_machine, partition_count, clock
        self._spawn, self._fatal, self._send = spawn, fatal, send
        self.shards: dict[int, Shard[MachineT]] = {}
        self._newest_epochs: dict[int, int] = {}
        self._loading = asyncio.Lock()

    # Requests

    def now(self) -> Now:
        return Now(int(self._clock.monotonic_ms()), self._clock.now_ms())

    def partition_for(self, key: str) -> int:
        return partition_for(key, self.partition_count())

    def shard_for(self, key: str) -> Shard[MachineT]:
        """Return the loaded shard of a key. Raises KafkaError NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS."""
        shard = self.shards.get(self.partition_for(key))
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"this broker does not coordinate {key!r}")
        if not shard.loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"the coordinator of {key!r} is loading")
        return shard

    def machine_for(self, key: str) -> MachineT:
        """Return the machine of a key, for queries. Raises KafkaError as `shard_for`."""
        return self.shard_for(key).machine

    def loaded_machines(self) -> Iterator[MachineT]:
        return (shard.machine for shard in self.shards.values() if shard.loaded)

    def coordinator_epoch(self, partition: int) -> int | None:
        """Return the leader epoch of a loaded shard, None for others."""
        shard = self.shards.get(partition)
        return shard.leader_epoch if shard is not None and shard.loaded else None

    @property
    def is_loading(self) -> bool:
        return not all(shard.loaded for shard in self.shards.values())

    def submit(self, key: str, request: Any, shape: Callable[[Any], ShapedT]) -> ShapedT | asyncio.Future[ShapedT]:
        """Pass a request to the key's machine; return `shape(reply)`, or a future of it if the request is parked.

        Raises KafkaError as `shard_for`.
        """
        shard = self.shard_for(key)
        ticket = _OpenTicket(shape, shard.waiting)
        self._carry_out(shard, shard.machine.decide(request, ticket, self.now()), ticket)
        if ticket.failure is not None:
            raise ticket.failure
        if ticket.answered:
            reply: ShapedT = ticket.reply
            return reply
        ticket.future = asyncio.get_running_loop().create_future()
        if shard.closed:
            ticket.refuse(ErrorCode.NOT_COORDINATOR)
        else:
            shard.waiting[ticket] = None
        return ticket.future

    def broadcast(self, request: Any) -> None:
        """Pass a request to every loaded machine; the replies are dropped."""
        for shard in tuple(self.shards.values()):
            if shard.loaded:
                ticket = _OpenTicket(lambda reply: reply, shard.waiting)
                self._carry_out_guarded(shard, partial(shard.machine.decide, request, ticket, self.now()))

    def on_transaction_end(self, partition: int, offset: int, producer_id: int, committed: bool) -> None:
        """Apply the committed marker at `offset` of a partition, unless the shard reads it while loading."""
        shard = self.shards.get(partition)
        if shard is not None and shard.loaded and offset >= shard.replayed_to:
            shard.machine.apply_marker(producer_id, committed)

    # Roles

    def on_election(self, partition: int, leader_epoch: int, log: InternalLog) -> None:
        """Start loading a partition that this broker leads from `leader_epoch` on."""
        if leader_epoch <= self._newest_epochs.get(partition, -1):
            return
        self._newest_epochs[partition] = leader_epoch
        shard = self.shards.get(partition)
        if shard is not None:
            shard.leader_epoch = leader_epoch
            return
        shard = self.shards[partition] = Shard(partition, leader_epoch, log, self._new_machine(partition))
        self._spawn(self._load(shard), f"load {self.topic}-{partition}")

    def on_resignation(self, partition: int, leader_epoch: int | None = None) -> None:
        """Unload a partition that another broker leads from `leader_epoch` on; with None its replica is deleted."""
        if leader_epoch is None:
            self._newest_epochs.pop(partition, None)
        else:
            if leader_epoch < self._newest_epochs.get(partition, -1):
                return
            self._newest_epochs[partition] = leader_epoch
        shard = self.shards.pop(partition, None)
        if shard is not None:
            self._unload(shard)

    def close(self) -> None:
        """Unload all shards, at shutdown."""
        for partition in tuple(self.shards):
            self.on_resignation(partition)

    def _unload(self, shard: Shard[MachineT]) -> None:
        shard.closed = True
        shard.loaded = False
        if shard.alarm is not None:
            shard.alarm.cancel()
        for ticket in tuple(shard.waiting):
            ticket.refuse(ErrorCode.NOT_COORDINATOR)
        shard.waiting.clear()
        shard.in_flight.clear()
        logger.debug("%s-%d: unloaded", self.topic, shard.partition)

    # Loading

    async def _load(self, shard: Shard[MachineT]) -> None:
        """Load a shard, again with a new machine after any error, until it is loaded or closed."""
        began_ms = self.now().monotonic_ms
        failures = 0
        while True:
            try:
                shard.replayed_to, count = shard.log.start_offset, 0
                is_behind = True
                while is_behind:  # markers may be appended while waiting for the commit
                    async with self._loading:
                        count += await self._replay(shard)
                    await self._wait_committed(shard)
                    if shard.closed:
                        return
                    is_behind = shard.replayed_to < shard.log.end_offset
                decision = shard.machine.on_loaded(self.now())
                break
            except InvariantBroken:
                raise
            except Exception as problem:
                failures += 1
                delay_s = RETRIES.delay_ms(failures) / 1000
                if isinstance(problem, KafkaError):
                    logger.error("%s-%d cannot be loaded and will be retried: %s", self.topic, shard.partition, problem)
                else:
                    what = f"loading {self.topic}-{shard.partition} failed and will be retried in {delay_s:g} s"
                    report(what, problem)
                await asyncio.sleep(delay_s)
                shard.machine = self._new_machine(shard.partition)
        shard.loaded = True
        self._carry_out_guarded(shard, lambda: decision)
        took_ms = self.now().monotonic_ms - began_ms
        level = logging.INFO if count else logging.DEBUG
        logger.log(level, "%s-%d: %d records loaded in %d ms", self.topic, shard.partition, count, took_ms)

    async def _replay(self, shard: Shard[MachineT]) -> int:
        """Apply the log from `replayed_to` on, its uncommitted part included; return the number of records."""
        log, machine = shard.log, shard.machine
        offset, count, paused_at = shard.replayed_to, 0, 0
        while not shard.closed and offset < log.end_offset:
            data = log.read(offset, self.rules.load_buffer_bytes)
            chunk_start = offset
            for header in iter_batches(data):
                if header.is_control:
                    marker = read_marker(data, header)
                    if marker is not None:
                        machine.apply_marker(header.producer_id, bool(marker.type))
                else:
                    producer_id = header.producer_id if header.is_transactional else -1
                    for record in read_batch(data, header, producer_id):
                        machine.apply(record)
                        count += 1
                        if count - paused_at >= _RECORDS_BETWEEN_PAUSES:
                            paused_at = count
                            await asyncio.sleep(0)
                            if shard.closed:
                                return count
                offset = header.next_offset
            if offset == chunk_start:
                offset = log.end_offset  # the end of the log has been compacted away
        shard.replayed_to = offset
        return count

    async def _wait_committed(self, shard: Shard[MachineT]) -> None:
        """Wait until all that was read is committed, or the append timeout has passed."""
        if shard.closed:
            return
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def complete_append(code: ErrorCode) -> None:
            if not committed.done():
                committed.set_result(None)

        shard.log.when_committed(shard.log.end_offset, complete_append)
        try:
            async with asyncio.timeout(self.rules.append_timeout_ms / 1000):
                await committed
        except TimeoutError:
            logger.warning("%s-%d is served although its last records are not committed", self.topic, shard.partition)

    # Carrying out

    def _carry_out_guarded(
        self, shard: Shard[MachineT], decide: Callable[[], Decision], cause: _OpenTicket | None = None
    ) -> None:
        """Carry out a later decision; an unexpected error is reported, and fails the request that caused it."""
        try:
            self._carry_out(shard, decide(), cause)
        except Exception as problem:
            report(f"the coordinator of {self.topic}-{shard.partition} failed", problem)
            if cause is not None:
                cause.fail()

    def _carry_out(self, shard: Shard[MachineT], decision: Decision, cause: _OpenTicket | None) -> None:
        for ticket, reply in decision.answers:
            ticket.answer(reply)  # type: ignore[attr-defined]
        for key, due_ms in decision.timers:
            if due_ms is None:
                shard.timers.cancel(key)
            else:
                shard.timers.set(key, due_ms)
        for append in decision.appends:
            self._append(shard, append, cause, decision.now)
        for message in decision.sends:
            self._send(shard.partition, message)
        self._set_alarm(shard)

    def _append(self, shard: Shard[MachineT], append: Append, cause: _OpenTicket | None, now: Now) -> None:
        try:
            if shard.closed:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            reach("coordinator.appending")
            guard = append.transaction.guard if append.transaction else UNGUARDED
            first_offset = shard.log.append(_batch(append, now.wall_ms, self.rules.codec), guard)
            reach("coordinator.appended")
        except KafkaError as problem:
            self._call_continuation(shard, append, cause, problem.code)
            return
        entry = _InFlight(append, cause, first_offset, now.monotonic_ms + self.rules.append_timeout_ms)
        shard.in_flight.append(entry)
        if self.rules.required_acks != -1:
            self._complete_append(shard, entry, ErrorCode.NONE)
            return
        shard.log.when_committed(entry.end_offset, lambda code: self._complete_append(shard, entry, code))
        if shard.in_flight and shard.in_flight[0] is entry:
            shard.timers.set(_APPEND_TIMEOUT, entry.deadline_ms)

    def _complete_append(self, shard: Shard[MachineT], entry: _InFlight, code: ErrorCode) -> None:
        """Apply the records of a committed append; unload the shard if the leadership was lost."""
        if shard.closed:
            return
        if code not in _COMMITTED:
            self.shards.pop(shard.partition, None)
            self._unload(shard)
            return
        ensure(shard.in_flight and shard.in_flight[0] is entry, "appends were committed out of order")
        shard.in_flight.popleft()
        reach("coordinator.committed")
        append = entry.append
        producer_id = append.transaction.producer_id if append.transaction else -1
        try:
            for offset, record in enumerate(append.records, entry.first_offset):
                shard.machine.apply(LogRecord(offset, record.key, record.value, producer_id))
        except Exception as problem:
            self._fatal(f"{self.topic}-{shard.partition}: an appended record cannot be applied: {problem!r}")
            return
        if not entry.is_timed_out:
            self._call_continuation(shard, append, entry.cause, code)

    def _call_continuation(
        self, shard: Shard[MachineT], append: Append, cause: _OpenTicket | None, code: ErrorCode
    ) -> None:
        def decide() -> Decision:
            decision = Decision(self.now())
            append.then(code, decision)
            return decision

        self._carry_out_guarded(shard, decide, cause)

    # Timers

    def _set_alarm(self, shard: Shard[MachineT]) -> None:
        due_ms = shard.timers.next_ms()
        if shard.closed or due_ms is None or (shard.alarm_ms is not None and shard.alarm_ms <= due_ms):
            return
        if shard.alarm is not None:
            shard.alarm.cancel()
        shard.alarm_ms = due_ms
        delay_s = max(0, due_ms - self._clock.monotonic_ms()) / 1000
        shard.alarm = asyncio.get_running_loop().call_later(delay_s, self._on_alarm, shard)

    def _on_alarm(self, shard: Shard[MachineT]) -> None:
        shard.alarm = shard.alarm_ms = None
        now = self.now()
        for key in shard.timers.pop_due(now.monotonic_ms):
            if shard.closed:
                return
            if key is _APPEND_TIMEOUT:
                self._time_out_appends(shard, now.monotonic_ms)
            else:
                self._carry_out_guarded(shard, partial(shard.machine.on_timer, key, self.now()))
        self._set_alarm(shard)

    def _time_out_appends(self, shard: Shard[MachineT], now_ms: int) -> None:
        """Continue overdue appends with REQUEST_TIMED_OUT; they stay in flight."""
        for entry in tuple(shard.in_flight):
            if entry.is_timed_out:
                continue
            if entry.deadline_ms > now_ms:
                shard.timers.set(_APPEND_TIMEOUT, entry.deadline_ms)
                return
            entry.is_timed_out = True
            self._call_continuation(shard, entry.append, entry.cause, ErrorCode.REQUEST_TIMED_OUT)

    def statistics(self) -> dict[str, int]:
        """Return counts for metrics and tests."""
        return {
            "shards": len(self.shards),
            "loading": sum(not shard.loaded for shard in self.shards.values()),
            "waiting": sum(len(shard.waiting) for shard in self.shards.values()),
            "in_flight": sum(len(shard.in_flight) for shard in self.shards.values()),
            "timers": sum(len(shard.timers) for shard in self.shards.values()),
        }


def _batch(append: Append, wall_ms: int, codec: int) -> bytearray:
    records = [NewRecord(each.key, each.value, wall_ms) for each in append.records]
    transaction = append.transaction
    if transaction is None:
        return build_batch(records, codec=codec, base_sequence=append.base_sequence)
    return build_batch(
        records,
        codec=codec,
        base_sequence=append.base_sequence,
        attributes=TRANSACTIONAL,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
    )
