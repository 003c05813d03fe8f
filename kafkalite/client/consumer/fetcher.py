"""The task that keeps the fetch buffer filled: finds positions, fetches from the leaders, follows them when they change.

One Fetch request per leader is in flight, with all partitions of that leader that want data; where leaders name nearer replicas, these
stand for them (`read_replicas`). Memory is bounded by
`prefetch_max_bytes` over buffered data and what the requests in flight may bring. Whatever brokers answer, nothing is asked without a pause
for ever: errors, resets and answers that bring nothing before their time are spaced by the retry policy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

from kafkalite.client.cluster.client import ClusterClient, version_for
from kafkalite.client.cluster.offset_lookup import EARLIEST, list_offsets
from kafkalite.client.cluster.retry import is_retriable, is_retriable_code, is_stale_metadata
from kafkalite.client.cluster.view import BrokerNode
from kafkalite.client.consumer.fetch_buffer import FetchBuffer, PartitionState
from kafkalite.client.consumer.fetch_request import make_fetch_request
from kafkalite.client.consumer.fetch_session import ConsumerFetchSession
from kafkalite.client.consumer.options import ConsumerOptions
from kafkalite.client.consumer.read_replicas import NOT_AT_REPLICA, ReadReplicas
from kafkalite.client.consumer.truncation import EpochEnd, end_of_epoch, find_past_leader
from kafkalite.client.errors import (
    ClientError,
    ClientTimeoutError,
    LogTruncationError,
    NoOffsetForPartitionError,
    error_of,
)
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.lifecycle import end_tasks
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.fetch_session_handler import SESSION_IS_OVER
from kafkalite.types import NO_TOPIC_ID, TopicPartition

log = logging.getLogger(__name__)

_LOGGED_FAILURES = (2, 20, 200)
"""After how many failures in a row a warning is logged; the first pass when a broker stops."""

_NEWEST_FETCH_BY_NAME = 12
"""From version 13 on topics go by id (KIP-516)."""

_EMPTY_RESPONSES = 10
"""So many answers in a row may bring nothing before their time; a leader has reasons for one or two."""

_SHORT_WAIT_MS = 20
"""A leader's long poll is cut to this while one of its partitions waits for room: it must not wait for idle ones."""


class Fetcher:
    """Fetches from the leaders into the buffer, one request per leader at a time. `wake()` after every change; `run()` is the
    task's body; `on_data` is called when there is news to read."""

    def __init__(
        self, cluster: ClusterClient, buffer: FetchBuffer, options: ConsumerOptions, on_data: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self._buffer = buffer
        self._options = options
        self._reset_to, self._isolation = options.reset_timestamp, options.isolation
        self._on_data = on_data
        self._wake = asyncio.Event()
        self._fetches: dict[int, asyncio.Task[None]] = {}
        self._reserved_bytes = 0
        self._stopped = False
        self._last_fetch: dict[int, int] = {}
        self._resetting: asyncio.Task[None] | None = None
        self._sessions: dict[int, ConsumerFetchSession] = {}
        self._empty_responses: dict[int, int] = {}
        """How many answers of a leader in a row brought nothing, and too early."""
        self._checks: dict[asyncio.Task[None], None] = {}
        self._read_replicas = ReadReplicas(options.client_rack)
        self.requests = 0
        self.waits_for_reader = False
        """True while something is not fetched before the reader has taken what is buffered."""
        cluster.add_listener(self.wake)

    def wake(self) -> None:
        """Look again at what can be fetched."""
        self._wake.set()

    async def run(self) -> None:
        """Fetch until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            try:
                self._start_resets(loop.time())
                self._start_checks(loop.time())
                self._start_fetches(loop.time())
            except Exception as problem:
                self._fail_unexpectedly(self._buffer.states.values(), problem)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._until_next_retry_s(loop.time())):
                    await self._wake.wait()

    async def stop(self) -> None:
        self._stopped = True
        await end_tasks([*self._fetches.values(), *self._checks, *([self._resetting] if self._resetting else [])])

    def _until_next_retry_s(self, now_s: float) -> float | None:
        moments = [state.not_before_s for state in self._buffer.states.values() if state.not_before_s > now_s]
        return max(min(moments) - now_s, 0.001) if moments else None

    # positions

    def _start_resets(self, now_s: float) -> None:
        if self._resetting is not None:
            return
        wanted: dict[PartitionState, int] = {}
        for state in self._buffer.states.values():
            if (
                state.position is None
                and state.error is None
                and not state.awaits_committed
                and now_s >= state.not_before_s
            ):
                if state.reset_to is None:
                    state.reset_to = self._reset_to
                if state.reset_to is None:
                    self._fail(state, NoOffsetForPartitionError(state.topic_partition, None))
                else:
                    wanted[state] = state.reset_to
        if wanted:
            self._resetting = asyncio.get_running_loop().create_task(self._reset(wanted))

    async def _reset(self, wanted: dict[PartitionState, int]) -> None:
        generations = {state: state.generation for state in wanted}
        questions = {state.topic_partition: timestamp for state, timestamp in wanted.items()}
        timeout_s = self._options.request_timeout_ms / 1000
        try:
            found = await list_offsets(self._cluster, questions, self._isolation, timeout_s)
            nothing = [each for each, offset in found.items() if offset is None]
            ends = (
                await list_offsets(self._cluster, dict.fromkeys(nothing, -1), self._isolation, timeout_s)
                if nothing
                else {}
            )
            for state in _select_unmoved(generations):
                offset = found[state.topic_partition] or ends[state.topic_partition]
                if state.position is None:
                    if offset is None:  # not even an end
                        self._retry_later(state)
                    else:
                        state.position = state.fetch_offset = offset.offset
                        state.reset_to = None
            self._on_data()
        except ClientTimeoutError as problem:
            log.warning("positions are not known yet: %s", problem)
        except ClientError as problem:
            self._fail_reset(_select_unmoved(generations), problem)
        except Exception as problem:
            self._fail_unexpectedly(_select_unmoved(generations), problem)
        finally:
            self._resetting = None
            self.wake()

    def _fail_reset(self, wanted: Iterable[PartitionState], problem: ClientError) -> None:
        """Fail the partitions, but go on asking for those whose existence the group's leader has seen: the brokers that do not
        know them have not heard of them yet, or the group will hear that they are gone."""
        is_missing = problem.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for state in wanted:
            if is_missing and state.by_group:
                log.warning("the position of %s is not known yet: %s", state.topic_partition, problem)
                self._retry_later(state)
            else:
                self._fail(state, problem)

    # truncation

    def _start_checks(self, now_s: float) -> None:
        """A new leader may have another log (`truncation`): nothing is fetched from it before it was asked."""
        for state in self._buffer.states.values():
            known = self._cluster.view.partition(state.topic_partition)
            if (
                state.fetch_epoch < 0
                or known is None
                or known.leader_epoch <= max(state.fetch_epoch, state.checked_epoch)
                or not self._buffer.wants_fetch(state, now_s)
            ):
                continue
            state.checking = True
            task = asyncio.get_running_loop().create_task(self._check(state, known.leader_epoch))
            self._checks[task] = None
            task.add_done_callback(self._checks.pop)

    async def _check(self, state: PartitionState, leader_epoch: int) -> None:
        generation, fetch_offset = state.generation, state.fetch_offset
        try:
            end = await end_of_epoch(self._cluster, state.topic_partition, state.fetch_epoch)
            if generation == state.generation:
                state.checked_epoch = leader_epoch
                if end.end_offset < fetch_offset:
                    self._handle_truncation(state, end)
        except (OSError, ClientError) as problem:
            if isinstance(problem, ClientError) and problem.code == ErrorCode.UNSUPPORTED_VERSION:
                state.checked_epoch = leader_epoch  # a broker that cannot tell is believed
            elif generation == state.generation and is_retriable(problem):
                self._retry_later(state)
            elif generation == state.generation:
                self._fail(state, problem)
        except Exception as problem:
            self._fail_unexpectedly(_select_unmoved({state: generation}), problem)
        finally:
            state.checking = False
            self.wake()

    def _handle_truncation(self, state: PartitionState, end: EpochEnd) -> None:
        """Go back to where the logs part. Records that the program has seen and that are gone are an error without a reset policy."""
        if state.position is not None and 0 <= state.position <= end.end_offset:
            self._buffer.seek(state.topic_partition, state.position, state.position_epoch)
            return
        problem = LogTruncationError(state.topic_partition, state.position, end.end_offset)
        if self._reset_to is None:
            self._fail(state, problem)
            return
        log.warning("%s", problem)
        if end.end_offset < 0:
            self._buffer.seek_to_time(state.topic_partition, self._reset_to)
        else:
            self._buffer.seek(state.topic_partition, end.end_offset, end.leader_epoch)

    # fetching

    def _start_fetches(self, now_s: float) -> None:
        if self._stopped:
            return
        view = self._cluster.view
        by_leader: dict[int, list[PartitionState]] = {}
        waits_for_room: set[int] = set()
        self.waits_for_reader = False
        for state in self._buffer.states.values():
            leader = self._read_replicas.choose(state.topic_partition, view, now_s)
            if self._buffer.is_full(state):
                waits_for_room.add(leader)
                self.waits_for_reader = True
            if not self._buffer.wants_fetch(state, now_s) or self._restart_if_recreated(state):
                continue
            if (past := find_past_leader(view.partition(state.topic_partition), state.fetch_epoch)) is not None:
                self._handle_failed_fetch([state], past)
            elif leader in view.brokers:
                by_leader.setdefault(leader, []).append(state)
            else:
                self._cluster.request_refresh()
        # A fetch may take all the room there is: the leader that had it last is asked last.
        for leader, states in sorted(by_leader.items(), key=lambda each: self._last_fetch.get(each[0], 0)):
            if leader in self._fetches:
                continue
            room_bytes = self._options.prefetch_max_bytes - self._buffer.buffered_bytes - self._reserved_bytes
            if room_bytes < self._options.max_partition_fetch_bytes and (
                self._buffer.buffered_bytes or self._reserved_bytes
            ):
                self.waits_for_reader = True
                break
            connection = self._cluster.open_connection(leader)
            if connection is not None:
                max_bytes = max(1, min(self._options.fetch_max_bytes, room_bytes))
                self._start_fetch(leader, connection, states, max_bytes, leader in waits_for_room)

    def _restart_if_recreated(self, state: PartitionState) -> bool:
        """True if the topic was deleted and created again (KIP-516); it is read from its beginning once all of the old one was read.

        Whatever auto_offset_reset says: the new topic's records are later than those read. NoOffsetForPartitionError without a policy.
        """
        topic = self._cluster.view.topics.get(state.topic_partition.topic)
        if topic is None or topic.topic_id == NO_TOPIC_ID or topic.topic_id == state.topic_id:
            return False
        if state.topic_id == NO_TOPIC_ID:
            state.topic_id = topic.topic_id
            return False
        if state.chunks:
            self.waits_for_reader = True
            return True
        if self._reset_to is None:
            self._fail(state, NoOffsetForPartitionError(state.topic_partition, state.fetch_offset))
        else:
            log.info("topic %s was made again; %s is read from its beginning", topic.name, state.topic_partition)
            self._buffer.seek_to_time(state.topic_partition, EARLIEST)
            self.wake()
        return True

    def _start_fetch(
        self, leader: int, connection: Connection, states: list[PartitionState], max_bytes: int, short: bool
    ) -> None:
        """Send the request at once: a reader that finds data does not let other tasks run, and the broker can work meanwhile."""
        asked = {state.topic_partition: (state, state.generation, state.fetch_offset) for state in states}
        wait_ms = min(_SHORT_WAIT_MS, self._options.fetch_max_wait_ms) if short else self._options.fetch_max_wait_ms
        session = self._sessions.setdefault(leader, ConsumerFetchSession())
        ids = self._topic_ids(states)
        newest = _NEWEST_FETCH_BY_NAME if NO_TOPIC_ID in ids.values() else None
        rack = self._read_replicas.rack_for(asked, asyncio.get_running_loop().time())
        request = make_fetch_request(self._options, self._cluster.view, session, states, ids, max_bytes, wait_ms, rack)
        try:
            version = version_for(connection, request, newest)
            future = connection.send(request, version)
        except (OSError, ClientError) as problem:
            session.handler.reset()
            self._handle_failed_fetch(states, problem)
            return
        self.requests += 1
        self._last_fetch[leader] = self.requests
        self._reserved_bytes += max_bytes
        for state in states:
            state.fetching = True
        timeout_s = (self._options.request_timeout_ms + wait_ms) / 1000
        answer = partial(connection.answer_to, request, future, timeout_s)
        names = {topic_id: name for name, topic_id in ids.items()} if version > _NEWEST_FETCH_BY_NAME else None
        task = self._fetch(leader, session, answer, names, asked, max_bytes, wait_ms / 1000)
        self._fetches[leader] = asyncio.get_running_loop().create_task(task)

    async def _fetch(
        self,
        leader: int,
        session: ConsumerFetchSession,
        answer: Callable[[], Awaitable[messages.fetch_response.FetchResponse]],
        names: dict[bytes, str] | None,
        asked: dict[TopicPartition, tuple[PartitionState, int, int]],
        max_bytes: int,
        wait_s: float,
    ) -> None:
        states = [state for state, _, _ in asked.values()]
        generations = {state: generation for state, generation, _ in asked.values()}
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            response = await answer()
            is_early = loop.time() < began_s + wait_s / 2
            if response.error_code in SESSION_IS_OVER:
                session.handler.reset(is_lost=True)
                self._note_empty_response(leader, states, is_early)
                return
            if self._handle_response(response, names, asked):
                self._empty_responses.pop(leader, None)
            else:
                self._note_empty_response(leader, states, is_early)
            session.handler.complete_fetch(0 if names is None else response.session_id)
        except (OSError, ClientError) as problem:
            session.handler.reset()
            self._handle_failed_fetch(_select_unmoved(generations), problem)
        except Exception as problem:
            session.handler.reset()
            self._fail_unexpectedly(_select_unmoved(generations), problem)
        finally:
            self._reserved_bytes -= max_bytes
            for state in states:
                state.fetching = False
            del self._fetches[leader]
            self._start_fetches(asyncio.get_running_loop().time())
            self.wake()

    def _note_empty_response(self, leader: int, states: list[PartitionState], is_early: bool) -> None:
        """A leader that does not wait as it was asked to is asked again after a pause, or it would be asked all the time."""
        count = self._empty_responses[leader] = self._empty_responses.get(leader, 0) + 1 if is_early else 0
        if count > _EMPTY_RESPONSES:
            delay_ms = self._cluster.retry.delay_ms(count - _EMPTY_RESPONSES, self._cluster.chance())
            not_before_s = asyncio.get_running_loop().time() + delay_ms / 1000
            for state in states:
                state.not_before_s = max(state.not_before_s, not_before_s)

    def _handle_failed_fetch(self, states: list[PartitionState], problem: Exception) -> None:
        if states and states[0].failures in _LOGGED_FAILURES:
            log.warning("%s cannot be fetched: %s", states[0].topic_partition, problem)
        self._cluster.request_refresh()
        for state in states:
            self._read_replicas.avoid(state.topic_partition, asyncio.get_running_loop().time())
            self._retry_later(state)
            if not is_retriable(problem):
                self._fail(state, problem)

    def _topic_ids(self, states: list[PartitionState]) -> dict[str, bytes]:
        topics = self._cluster.view.topics
        return {state.topic_partition.topic: topics[state.topic_partition.topic].topic_id for state in states}

    def _handle_response(
        self,
        response: messages.fetch_response.FetchResponse,
        names: dict[bytes, str] | None,
        asked: dict[TopicPartition, tuple[PartitionState, int, int]],
    ) -> bool:
        """Buffer the records of the partitions that were asked for; True if there is something new to read."""
        if response.error_code:
            raise error_of(response.error_code, "fetching")
        if response.node_endpoints:
            nodes = [BrokerNode(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints]
            self._cluster.view = self._cluster.view.with_brokers(nodes)
        news = False
        for topic in response.responses:
            name = topic.topic if names is None else names.get(topic.topic_id)
            for answer in topic.partitions:
                question = asked.get(TopicPartition(name or "", answer.partition_index))
                if question is not None:
                    news = self._handle_partition(*question, answer) or news
        if news:
            self._on_data()
        return news

    def _handle_partition(
        self, state: PartitionState, generation: int, fetch_offset: int, answer: messages.fetch_response.PartitionData
    ) -> bool:
        """Buffer the records of a partition, or handle its error; True if there is something new to read."""
        code, now_s = answer.error_code, asyncio.get_running_loop().time()
        if code == ErrorCode.NONE:
            self._read_replicas.note(state.topic_partition, answer.preferred_read_replica, now_s)
            try:
                return self._buffer.add(state, generation, answer)
            except KafkaError as problem:
                context = f"fetching {state.topic_partition}"
                self._fail(state, error_of(problem.code, context, problem.message))
                return False
        if generation != state.generation:
            return False
        if code in NOT_AT_REPLICA and self._read_replicas.avoid(state.topic_partition, now_s):
            self._retry_later(state)
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._handle_out_of_range(state, fetch_offset)
        elif is_stale_metadata(code):
            if answer.current_leader is not None:
                view, leader = self._cluster.view, answer.current_leader
                self._cluster.view = view.with_leader(state.topic_partition, leader.leader_id, leader.leader_epoch)
            self._cluster.request_refresh()
            self._retry_later(state)
        elif is_retriable_code(code):
            self._retry_later(state)
        else:
            self._fail(state, error_of(code, f"fetching {state.topic_partition}"))
        return False

    def _handle_out_of_range(self, state: PartitionState, fetch_offset: int) -> None:
        """Records below were deleted, or those above were lost: begin again as the policy says, after what is buffered."""
        if state.chunks:
            self._retry_later(state)
        elif self._reset_to is None:
            self._fail(state, NoOffsetForPartitionError(state.topic_partition, fetch_offset))
        else:
            log.info("offset %d of %s is out of range; the position is reset", fetch_offset, state.topic_partition)
            failures = state.failures
            self._buffer.seek_to_time(state.topic_partition, self._reset_to)
            state.failures = failures
            if failures:  # the last reset was in vain
                self._retry_later(state)
            state.failures = failures + 1

    def _retry_later(self, state: PartitionState) -> None:
        state.failures += 1
        delay_ms = self._cluster.retry.delay_ms(state.failures, self._cluster.chance())
        state.not_before_s = asyncio.get_running_loop().time() + delay_ms / 1000

    def _fail_unexpectedly(self, states: Iterable[PartitionState], problem: Exception) -> None:
        """Raise an unexpected error in the next read of these partitions, which would wait for ever otherwise."""
        log.error("fetching failed", exc_info=problem)
        for state in states:
            if state.error is None:
                self._fail(state, problem)

    def _fail(self, state: PartitionState, problem: Exception) -> None:
        """Keep an error for the reader, who gets it in place of records until a seek."""
        state.error = problem
        self._on_data()


def _select_unmoved(generations: Mapping[PartitionState, int]) -> list[PartitionState]:
    """Return the partitions that were neither sought nor given up since they had these generations."""
    return [state for state, generation in generations.items() if state.generation == generation]
