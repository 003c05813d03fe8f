"""Fetch records from one leader, many partitions in one request, and append them (Kafka's ReplicaFetcherThread).

A loop with one connection and one incremental session (KIP-227), so partitions in which nothing happens cost nothing: fetch, append, and
acknowledge by the offset of the next fetch, on which the leader moves its high watermark (`Partition.follower_fetched`). `fetch_states`
decides what to fetch and what an answer means. What the leader's log does not have is truncated when the leader answers with a diverging
epoch (Fetch 12, KIP-595); older leaders are asked with OffsetForLeaderEpoch first (KIP-101, KIP-279).

A newly followed partition is not in the long poll that is under way, and acks=all waits for it. So long polls are short while partitions
are added, and what is new goes into the session with the next one. One that would last much longer is given up: the loop drops its
connection and fetches again. That ends the session, whose next epoch nobody knows for sure, so all partitions are named again: with
thousands of them it costs more than the wait, and it is done the less often, the more there are. Kafka waits for the long poll in any case.

A replica that follower.replication.throttled.replicas names and that lags is left out of the fetches while all of them together exceed
follower.replication.throttled.rate (KIP-73).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkalite.backoff import Backoff
from kafkalite.broker.replication.fetch_states import (
    APPEND,
    BACK_OFF,
    DIVERGING_EPOCH_FROM,
    DROP,
    FIND_RANGE,
    TRUNCATE,
    WAIT_AND_RETRY,
    FetchStates,
    PartitionFetchState,
    Step,
    decide_step,
    decide_step_after_error,
)
from kafkalite.broker.replication.follower_truncation import truncation_offset
from kafkalite.broker.replication.leader_offsets import code_of, offset_in, offset_request
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.settings.rates import ReplicationRate
from kafkalite.errors import ErrorCode, InvariantBroken, KafkaError
from kafkalite.lifecycle import end_tasks, report, start_task
from kafkalite.net.connection import Connection, OpenToBroker, open_unauthenticated
from kafkalite.protocol import messages
from kafkalite.protocol.fetch_session_handler import SESSION_IS_OVER
from kafkalite.types import BrokerId, Endpoint, TopicPartition

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig, LiveConfig
    from kafkalite.protocol.inter_broker import InterBrokerVersions
    from kafkalite.storage.log.partition_log import PartitionLog

logger = logging.getLogger("kafkalite.broker.replication.leader_fetcher")

_FIRST_LEADER_BACKOFF_MS = 20.0
_EMPTY_ANSWERS = 10
_ENDED_ONE_BY_ONE = 10
_PARTITIONS_OF_AN_ANSWER = 500
"""A leader reads some thousands of partitions for each answer, which has nothing if none of them has records."""


@dataclass(slots=True)
class FetcherContext:
    """Ports and settings that the fetchers of a broker share. `endpoint_of(leader)` is a broker's endpoint for other brokers.

    `note_log_starts(logs)` writes where these logs start now, because their leader has deleted records.
    """

    broker_id: BrokerId
    broker_epoch: Callable[[], int]
    config: LiveConfig
    versions: InterBrokerVersions
    endpoint_of: Callable[[BrokerId], Endpoint | None]
    now_ms: Callable[[], float]
    wall_ms: Callable[[], int]
    throttled_rate: ReplicationRate
    note_log_starts: Callable[[Iterable[PartitionLog]], None]
    connect: OpenToBroker = open_unauthenticated
    bytes_in: int = 0
    """Bytes of records from all leaders."""


class _NoLongerFollowed(Exception):
    """Raised when a partition changed hands while the leader was asked: this fetcher may not truncate its log any more."""


class LeaderFetcher:
    """The fetch loop of one leader; `stop_following(partition)` is called when a partition cannot be fetched any more."""

    def __init__(
        self, context: FetcherContext, leader: BrokerId, stop_following: Callable[[TopicPartition], None]
    ) -> None:
        self._context, self._leader, self._stop_following = context, leader, stop_following
        self._states = FetchStates(context.broker_id, context.throttled_rate)
        self._connection: Connection | None = None
        self._versions = context.versions
        """Those that the leader of the connection is asked in."""
        self._failures = 0
        self._wake = asyncio.Event()
        self._poll_ends_ms = float("-inf")
        """When the long poll that is under way ends at the latest."""
        self._renew: asyncio.Handle | None = None
        self._is_renewing = False
        self._range_tasks: dict[asyncio.Task[None], None] = {}
        self._requests = self._empty_answers = self._renewals = 0
        self._moved: list[PartitionLog] = []
        """Logs whose start moved with the response that is being handled."""
        self._ended: list[PartitionFetchState] = []
        """Partitions whose leader epoch is over, as the response that is being handled says."""
        self._task = start_task(self._run(), f"fetching from broker {leader}")

    @property
    def _config(self) -> BrokerConfig:
        return self._context.config.current

    def add(self, partition: Partition, topic_id: bytes) -> None:
        """Follow a partition in its leader epoch."""
        log = partition.log
        state = PartitionFetchState(partition, topic_id, partition.leader_epoch, is_in_sync=partition.began_in_sync)
        if log.latest_epoch is None:
            # An idle log, as nearly all are, has nothing to cut, and is not to be noted as changed for each new leader.
            if log.high_watermark < log.log_end_offset or log.future is not None:
                log.truncate_to(min(log.high_watermark, log.log_end_offset))
        else:
            state.must_ask_epoch = self._context.versions.fetch < DIVERGING_EPOCH_FROM
        now_ms = self._context.now_ms()
        self._states.add(state, now_ms)
        if not self._wake.is_set():
            self._wake.set()
        remaining_ms = self._poll_ends_ms - now_ms
        if self._renew is None and remaining_ms > 0 and self._states.is_worth_renewing(remaining_ms, now_ms):
            # Not at once: so the next fetch has all that is added in this iteration.
            self._renew = asyncio.get_running_loop().call_soon(self._drop_connection)

    def remove(self, topic_partition: TopicPartition) -> None:
        self._states.remove(topic_partition)

    async def close(self) -> None:
        if self._renew is not None:
            self._renew.cancel()
        if self._connection is not None:
            self._connection.close()
        await end_tasks([self._task, *self._range_tasks])

    def statistics(self) -> dict[str, Any]:
        return {
            "partitions": len(self._states.followed),
            "requests": self._requests,
            "renewals": self._renewals,
            "failures": self._failures,
        }

    def _drop_connection(self) -> None:
        """Give up the long poll, so that a new partition does not wait for its end."""
        self._renew = None
        if self._connection is not None and self._connection.in_flight and self._states.changed:
            self._is_renewing = True
            self._renewals += 1
            self._states.note_renewal(self._context.now_ms())
            self._connection.close()

    # The loop

    async def _run(self) -> None:
        while True:
            try:
                if not self._states.followed:
                    self._wake.clear()
                    await self._wake.wait()
                connection = await self._connect()
                await self._agree_on_epochs(connection)
                await self._fetch(connection)
                self._failures = 0
            except (OSError, TimeoutError) as problem:
                self._states.restart_session()
                if self._is_renewing:  # it was we who closed the connection
                    self._is_renewing = False
                else:
                    await self._pause(problem)
            except InvariantBroken:
                raise
            except Exception as problem:
                report(f"fetching from broker {self._leader} failed; it starts again", problem)
                self._states.restart_session()
                await self._pause(None)

    async def _pause(self, problem: Exception | None) -> None:
        self._failures += 1
        if self._connection is not None:
            self._connection.close()
        if problem is not None and self._failures in (1, 10, 100):
            logger.warning("fetching from broker %d: %s", self._leader, problem)
        backoff_ms = Backoff(_FIRST_LEADER_BACKOFF_MS, self._config.replica_fetch_backoff_ms).delay_ms(self._failures)
        await self._sleep(backoff_ms)

    async def _sleep(self, duration_ms: float) -> None:
        """Sleep until there is something new to fetch, for so long at most."""
        self._wake.clear()
        try:
            async with asyncio.timeout(duration_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _connect(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._states.restart_session()
            endpoint = self._context.endpoint_of(self._leader)
            if endpoint is None:
                raise ConnectionError(f"broker {self._leader} is not alive as far as metadata knows")
            client_id = f"broker-{self._context.broker_id}-fetcher-0"
            timeout_s = self._config.replica_socket_timeout_ms / 1000
            connection = await self._context.connect(endpoint, client_id, timeout_s)
            try:
                self._versions = await self._choose_versions(connection, timeout_s)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    async def _choose_versions(self, connection: Connection, timeout_s: float) -> InterBrokerVersions:
        """Return the versions of inter.broker.protocol.version, raised to those that fence followers if the leader speaks them."""
        versions = self._context.versions
        if not versions.fence_followers:
            await connection.negotiate(timeout_s)
            versions = versions.raised_to_fence(connection.versions)
        return versions

    async def _fetch(self, connection: Connection) -> None:
        """Fetch once, and append what the leader answers; the next fetch acknowledges it."""
        context, states = self._context, self._states
        began_ms = context.now_ms()
        version = states.choose_version(self._versions.fetch)
        request, wait_ms = states.make_request(version, began_ms, self._config, context.broker_epoch())
        if request is None:
            await self._sleep(wait_ms)
            return
        self._requests += 1
        timeout_s = (self._config.replica_socket_timeout_ms + wait_ms) / 1000
        self._poll_ends_ms = began_ms + wait_ms
        try:
            response = await connection.request(request, version, timeout_s)
        finally:
            self._poll_ends_ms = float("-inf")
        is_early = not response.responses and context.now_ms() < began_ms + wait_ms / 2
        self._empty_answers = self._empty_answers + 1 if is_early else 0
        if self._empty_answers > _EMPTY_ANSWERS + len(states.session.sent) // _PARTITIONS_OF_AN_ANSWER:
            # It would be asked all the time.
            raise OSError("fetches are answered at once, with nothing")
        if response.error_code in SESSION_IS_OVER:
            logger.info("broker %d: %s, full fetch next", self._leader, code_of(response.error_code).name)
            states.restart_session(is_lost=True)
            return
        if response.error_code:  # with a pause: nothing says that the next fetch will fare better
            raise OSError(f"the fetch was answered with {code_of(response.error_code).name}")
        for state, data in states.match_answers(response, version):
            self._handle_answer(state, data)
        self._tell_ended()
        if self._moved:
            # The next fetch tells the leader, which then answers DeleteRecords: a kill must not undo that.
            context.note_log_starts(self._moved)
            self._moved.clear()
        states.complete_fetch(response.session_id)

    # One partition's answer

    def _handle_answer(self, state: PartitionFetchState, data: messages.fetch_response.PartitionData) -> None:
        topic_partition = state.partition.topic_partition
        try:
            step = decide_step(data)
            if step is APPEND:
                self._append(state, data)
                state.failures = 0
            elif step is TRUNCATE and data.diverging_epoch is not None:
                self._truncate(state, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            else:
                self._handle_error(state, step, code_of(data.error_code))
        except KafkaError as problem:
            logger.warning("%s: cannot take what broker %d sent: %s", topic_partition, self._leader, problem)
            if state.partition.log.log_directory.offline_reason is not None:
                self._stop_following(topic_partition)
            else:
                self._back_off(state)

    def _append(self, state: PartitionFetchState, data: messages.fetch_response.PartitionData) -> None:
        partition, log = state.partition, state.partition.log
        if data.records:
            # A leader that was told our epoch has it, too; it may have records of later ones where ZooKeeper was restored from a copy.
            leader_epoch = None if self._versions.fence_followers else state.leader_epoch
            log.append_as_follower(data.records, now_ms=self._context.wall_ms(), leader_epoch=leader_epoch)
            self._context.bytes_in += len(data.records)
            if self._states.counts_as_throttled(partition):
                self._context.throttled_rate.add(len(data.records), self._context.now_ms())
            self._states.changed[partition.topic_partition] = None
        if data.log_start_offset > log.log_start_offset:
            log.delete_records(min(data.log_start_offset, log.log_end_offset))
            self._moved.append(log)
            self._states.changed[partition.topic_partition] = None
        state.is_in_sync = log.log_end_offset >= data.high_watermark
        partition.follow_high_watermark(data.high_watermark)

    def _handle_error(self, state: PartitionFetchState, step: Step, code: ErrorCode) -> None:
        topic_partition = state.partition.topic_partition
        if step is FIND_RANGE:
            self._states.leave_out_until(state, float("inf"))  # until the leader has said where its log begins and ends
            task = start_task(self._find_range(state), f"asking for the leader's offsets of {topic_partition}")
            self._range_tasks[task] = None
            task.add_done_callback(self._range_tasks.pop)
        elif step is DROP:
            self._ended.append(state)
            self._stop_following(topic_partition)
        elif step is BACK_OFF:
            if code not in WAIT_AND_RETRY:
                logger.warning("%s: broker %d answers %s", topic_partition, self._leader, code.name)
            self._back_off(state)

    def _tell_ended(self) -> None:
        """Log that leader epochs are over, of thousands of partitions in one line: another broker leads them all."""
        ended, self._ended = self._ended, []
        if len(ended) > _ENDED_ONE_BY_ONE:
            first, epoch = ended[0].partition.topic_partition, ended[0].leader_epoch
            logger.info("leader epochs of %d partitions are over, that of %s is %d", len(ended), first, epoch)
            return
        for state in ended:
            logger.info("%s: leader epoch %d is over", state.partition.topic_partition, state.leader_epoch)

    def _back_off(self, state: PartitionFetchState) -> None:
        self._states.back_off(state, self._context.now_ms(), self._config.replica_fetch_backoff_ms)

    def _truncate(self, state: PartitionFetchState, epoch: int, end_offset: int) -> None:
        partition, log = state.partition, state.partition.log
        offset = truncation_offset(log.end_offset_for_epoch, epoch, end_offset, log.log_end_offset, log.high_watermark)
        if offset < log.high_watermark:
            logger.error(
                "%s: truncating to %d, below the high watermark %d",
                partition.topic_partition,
                offset,
                log.high_watermark,
            )
        if offset < log.log_end_offset:
            logger.info("%s: truncating from %d to %d", partition.topic_partition, log.log_end_offset, offset)
        log.truncate_to(offset)  # also where it removes no record: our last leader epoch may have none
        self._states.changed[partition.topic_partition] = None

    async def _find_range(self, state: PartitionFetchState) -> None:
        """Truncate our log where it is longer than the leader's, or start it where the leader's begins, after OFFSET_OUT_OF_RANGE."""
        partition, log = state.partition, state.partition.log
        try:
            connection = await self._connect()
            latest = await self._list_offset(connection, state, -1)
            if latest < log.log_end_offset:
                logger.warning(
                    "%s: leader ends at %d, we at %d: truncating", partition.topic_partition, latest, log.log_end_offset
                )
                log.truncate_to(latest)
            else:
                earliest = await self._list_offset(connection, state, -2)
                if earliest > log.log_end_offset:
                    log.truncate_fully_and_start_at(earliest)
                elif log.config.message_format_acts and log.latest_epoch is not None:  # it has messages without epochs
                    log.truncate_without_epochs(log.high_watermark)
                else:
                    raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"it has {earliest} to {latest}, and refuses")
            self._states.fetch_next(partition.topic_partition)
            self._wake.set()
        except _NoLongerFollowed:
            return
        except (OSError, TimeoutError, KafkaError) as problem:
            logger.warning("%s: asking for the leader's offsets: %s", partition.topic_partition, problem)
            if self._states.is_current(state):
                self._back_off(state)
        except Exception:
            if self._states.is_current(state):  # else it would be left out for ever
                self._back_off(state)
            raise

    async def _list_offset(self, connection: Connection, state: PartitionFetchState, timestamp: int) -> int:
        context, topic_partition = self._context, state.partition.topic_partition
        request = offset_request(context.broker_id, topic_partition, state.leader_epoch, timestamp)
        response = await connection.request(request, self._versions.list_offsets)
        if not self._states.is_current(state):
            raise _NoLongerFollowed
        return offset_in(response, topic_partition)

    async def _agree_on_epochs(self, connection: Connection) -> None:
        """Truncate to where our last epochs end at a leader older than Fetch 12, before the first fetch from it."""
        asking = self._states.select_epoch_askers(self._context.now_ms())
        if not asking:
            return
        request = self._states.make_epochs_request(asking)
        response = await connection.request(request, self._versions.offset_for_leader_epoch)
        asked = {state.partition.topic_partition: state for state in asking}
        for result in response.topics:
            for answer in result.partitions:
                state = asked.get(TopicPartition(result.topic, answer.partition))
                if state is None or not self._states.is_current(state):
                    continue
                if answer.error_code:
                    code = code_of(answer.error_code)
                    self._handle_error(state, decide_step_after_error(code), code)
                    continue
                log = state.partition.log
                latest = log.latest_epoch
                self._truncate(state, answer.leader_epoch, answer.end_offset)
                agreed = (
                    answer.end_offset < 0 or answer.leader_epoch in (latest, -1) or log.latest_epoch in (None, latest)
                )
                state.must_ask_epoch = not agreed
        self._tell_ended()
