"""Replication, the follower's side: a loop that pulls records from one leader, many partitions in one Fetch (Kafka's ReplicaFetcherThread).

The loop has one connection and one incremental session (KIP-227), so partitions in which nothing happens cost nothing. What the
leader's log does not have is cut off when the leader answers with a diverging epoch (Fetch 12, KIP-595); older leaders are asked with
OffsetForLeaderEpoch first (KIP-101, KIP-279).

A partition that begins to follow must not wait for the end of a long poll that knows nothing of it, because acks=all waits for it: the loop
drops its connection and fetches again, at most every `_RENEW_INTERVAL_S`.

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
from kafkalite.broker.replication.follower_truncation import truncation_offset
from kafkalite.broker.replication.leader_offsets import code_of, offset_in, offset_request
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.settings.rates import ReplicationRate, is_throttled
from kafkalite.errors import ErrorCode, InvariantBroken, KafkaError
from kafkalite.lifecycle import end_tasks, report, start_task
from kafkalite.net.connection import Connection, OpenToBroker, open_unauthenticated
from kafkalite.protocol import messages
from kafkalite.protocol.fetch_session_handler import FULL_FETCH_EPOCH, SESSION_IS_OVER, FetchSessionHandler
from kafkalite.types import NO_TOPIC_ID, BrokerId, Endpoint, TopicPartition

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig, LiveConfig
    from kafkalite.protocol.inter_broker import InterBrokerVersions
    from kafkalite.storage.log.partition_log import PartitionLog

logger = logging.getLogger("kafkalite.broker.replication.leader_fetcher")

_FIRST_BACKOFF_MS, _FIRST_LEADER_BACKOFF_MS = 10.0, 20.0
_RENEW_INTERVAL_S = 0.05
_NAMES_KEPT, _EMPTY_ANSWERS = 100, 10
_DIVERGING_EPOCH_FROM, _TOPIC_ID_FROM, _REPLICA_STATE_FROM = 12, 13, 15

_WAIT_AND_RETRY = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


@dataclass(slots=True)
class FetcherContext:
    """What the fetchers of a broker share. `endpoint_of(leader)` is a broker's endpoint for other brokers.

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
    """Of records, from all leaders."""


@dataclass(slots=True)
class _Following:
    """Where one partition stands. `next_try_ms` paces it after `failures` in a row."""

    partition: Partition
    topic_id: bytes
    leader_epoch: int
    must_ask_epoch: bool = False
    is_in_sync: bool = False
    failures: int = 0
    next_try_ms: float = 0.0

    @property
    def fetch_offset(self) -> int:
        return self.partition.log.log_end_offset


class _NoLongerFollowed(Exception):
    """While the leader was asked, the partition changed hands: its log is no longer ours to cut."""


class LeaderFetcher:
    """See the module. `stop_following(partition)` is called when a partition can be fetched no more."""

    def __init__(
        self, context: FetcherContext, leader: BrokerId, stop_following: Callable[[TopicPartition], None]
    ) -> None:
        self._context, self._leader, self._stop_following = context, leader, stop_following
        self._followed: dict[TopicPartition, _Following] = {}
        self._names: dict[bytes, str] = {}
        """Of topics by id; also of some that are followed no more."""
        self._connection: Connection | None = None
        self._session = FetchSessionHandler()
        self._changed: dict[TopicPartition, None] = {}
        """To be named by the next fetch: followed, and their log is not what the leader knows of."""
        self._without_id = 0
        """Of those that are followed, how many topics have no id."""
        self._may_ask_epochs = False
        """Is there one that must ask? To look at all for each fetch would take the longer, the more there are."""
        self._failures = 0
        self._wake = asyncio.Event()
        self._renew: asyncio.TimerHandle | None = None
        self._renewed_s = float("-inf")
        self._is_renewing = False
        self._range_tasks: dict[asyncio.Task[None], None] = {}
        self._requests = self._empty_answers = 0
        self._moved: list[PartitionLog] = []
        """Logs whose start moved with the response that is being taken."""
        self._task = start_task(self._run(), f"fetching from broker {leader}")

    @property
    def _config(self) -> BrokerConfig:
        return self._context.config.current

    def add(self, partition: Partition, topic_id: bytes) -> None:
        log = partition.log
        following = _Following(partition, topic_id, partition.leader_epoch, is_in_sync=partition.began_in_sync)
        if log.latest_epoch is None:
            log.truncate_to(min(log.high_watermark, log.log_end_offset))
        else:
            following.must_ask_epoch = self._context.versions.fetch < _DIVERGING_EPOCH_FROM
            self._may_ask_epochs |= following.must_ask_epoch
        before = self._followed.get(partition.topic_partition)
        self._without_id += (topic_id == NO_TOPIC_ID) - (before is not None and before.topic_id == NO_TOPIC_ID)
        self._followed[partition.topic_partition] = following
        self._changed[partition.topic_partition] = None
        if len(self._names) > 2 * len(self._followed) + _NAMES_KEPT:
            self._names = {each.topic_id: each.partition.topic_partition.topic for each in self._followed.values()}
        self._names[topic_id] = partition.topic_partition.topic
        self._wake.set()
        self._renew_soon()

    def remove(self, topic_partition: TopicPartition) -> None:
        following = self._followed.pop(topic_partition, None)
        if following is not None:
            self._without_id -= following.topic_id == NO_TOPIC_ID
            self._changed.pop(topic_partition, None)
            self._session.forget(topic_partition)

    async def close(self) -> None:
        if self._renew is not None:
            self._renew.cancel()
        if self._connection is not None:
            self._connection.close()
        await end_tasks([self._task, *self._range_tasks])

    def statistics(self) -> dict[str, Any]:
        return {"partitions": len(self._followed), "requests": self._requests, "failures": self._failures}

    def _renew_soon(self) -> None:
        """See the module: do not let a partition wait for a long poll that began without it."""
        if self._renew is not None or self._connection is None or not self._connection.in_flight:
            return
        loop = asyncio.get_running_loop()
        delay_s = max(0.0, self._renewed_s + _RENEW_INTERVAL_S - loop.time())
        self._renew = loop.call_later(delay_s, self._drop_connection)

    def _drop_connection(self) -> None:
        self._renew = None
        self._renewed_s = asyncio.get_running_loop().time()
        if self._connection is not None and self._connection.in_flight and self._changed:
            self._is_renewing = True
            self._connection.close()

    # The loop

    async def _run(self) -> None:
        while True:
            try:
                if not self._followed:
                    self._wake.clear()
                    await self._wake.wait()
                connection = await self._connected()
                await self._ask_epochs(connection)
                await self._fetch(connection)
                self._failures = 0
            except (OSError, TimeoutError) as problem:
                self._restart_session()
                if self._is_renewing:  # it was we who closed the connection
                    self._is_renewing = False
                else:
                    await self._pause(problem)
            except InvariantBroken:
                raise
            except Exception as problem:
                report(f"fetching from broker {self._leader} failed; it starts again", problem)
                self._restart_session()
                await self._pause(None)

    def _restart_session(self, *, session_is_lost: bool = False) -> None:
        """The next fetch is a full one."""
        self._session.reset(is_lost=session_is_lost)
        self._changed = dict.fromkeys(self._followed)

    async def _pause(self, problem: Exception | None) -> None:
        self._failures += 1
        if self._connection is not None:
            self._connection.close()
        if problem is not None and self._failures in (1, 10, 100):
            logger.warning("fetching from broker %d: %s", self._leader, problem)
        backoff_ms = Backoff(_FIRST_LEADER_BACKOFF_MS, self._config.replica_fetch_backoff_ms).delay_ms(self._failures)
        self._wake.clear()
        try:
            async with asyncio.timeout(backoff_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._restart_session()
            endpoint = self._context.endpoint_of(self._leader)
            if endpoint is None:
                raise ConnectionError(f"broker {self._leader} is not alive as far as metadata knows")
            client_id = f"broker-{self._context.broker_id}-fetcher-0"
            timeout_s = self._config.replica_socket_timeout_ms / 1000
            self._connection = await self._context.connect(endpoint, client_id, timeout_s)
        return self._connection

    async def _fetch(self, connection: Connection) -> None:
        now_ms = self._context.now_ms()
        version = self._version()
        request, wait_ms = self._request(version, now_ms)
        if request is None:
            self._wake.clear()
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass
            return
        self._requests += 1
        timeout_s = (self._config.replica_socket_timeout_ms + wait_ms) / 1000
        began_ms = self._context.now_ms()
        response = await connection.request(request, version, timeout_s)
        is_early = not response.responses and self._context.now_ms() < began_ms + wait_ms / 2
        self._empty_answers = self._empty_answers + 1 if is_early else 0
        if self._empty_answers > _EMPTY_ANSWERS:  # it would be asked all the time
            raise OSError("fetches are answered at once, with nothing")
        if response.error_code in SESSION_IS_OVER:
            logger.info("broker %d: %s, full fetch next", self._leader, code_of(response.error_code).name)
            self._restart_session(session_is_lost=True)
            return
        if response.error_code:  # with a pause: nothing says that the next fetch will fare better
            raise OSError(f"the fetch was answered with {code_of(response.error_code).name}")
        for topic in response.responses:
            name = topic.topic if version < _TOPIC_ID_FROM else self._names.get(topic.topic_id)
            for data in topic.partitions:
                topic_partition = TopicPartition(name or "", data.partition_index)
                # One that was stopped and followed again meanwhile has not been sent yet: this answer is about its past.
                if not self._session.knows(topic_partition, topic.topic_id):
                    self._session.refuse(topic_partition, topic.topic_id)
                elif self._is_current(self._followed[topic_partition]):
                    self._take(self._followed[topic_partition], data)
        if self._moved:  # before the leader is told, which answers DeleteRecords then: a kill must not undo it
            self._context.note_log_starts(self._moved)
            self._moved.clear()
        self._session.answered(response.session_id)
        if self._session.epoch == FULL_FETCH_EPOCH:  # the leader keeps no session
            self._changed = dict.fromkeys(self._followed)

    def _is_current(self, following: _Following) -> bool:
        """Is this still what we follow? After each await it must be asked again: we may lead the partition by now."""
        partition = following.partition
        return (
            self._followed.get(partition.topic_partition) is following
            and following.leader_epoch == partition.leader_epoch
        )

    def _version(self) -> int:
        wanted = self._context.versions.fetch
        if wanted >= _TOPIC_ID_FROM and self._without_id:
            return _TOPIC_ID_FROM - 1
        return wanted

    def _request(self, version: int, now_ms: float) -> tuple[messages.fetch_request.FetchRequest | None, float]:
        """(request or None when every partition backs off, longest wait in ms)."""
        m = messages.fetch_request
        session, wait_ms = self._session, float(self._config.replica_fetch_wait_max_ms)
        if session.uses_topic_ids != (version >= _TOPIC_ID_FROM):
            session.uses_topic_ids = version >= _TOPIC_ID_FROM
            self._restart_session()
        topics: dict[str, messages.fetch_request.FetchTopic] = {}
        for topic_partition in list(self._changed):
            following = self._followed[topic_partition]
            if (exceeded_ms := self._throttled_ms(following, now_ms)) > 0:
                self._leave_out_until(following, now_ms + exceeded_ms)
            if following.next_try_ms > now_ms or following.must_ask_epoch:
                wait_ms = min(wait_ms, max(1.0, following.next_try_ms - now_ms))
                continue
            del self._changed[topic_partition]
            session.send(topic_partition, following.topic_id)
            topic = topics.get(topic_partition.topic)
            if topic is None:
                topic = topics[topic_partition.topic] = m.FetchTopic(
                    topic=topic_partition.topic, topic_id=following.topic_id
                )
            latest = following.partition.log.latest_epoch
            topic.partitions.append(
                m.FetchPartition(
                    partition=topic_partition.partition,
                    current_leader_epoch=following.leader_epoch,
                    fetch_offset=following.fetch_offset,
                    last_fetched_epoch=-1 if latest is None else latest,
                    log_start_offset=following.partition.log.log_start_offset,
                    partition_max_bytes=self._config.replica_fetch_max_bytes,
                )
            )
        if not session.sent:
            return None, wait_ms
        forgotten: dict[tuple[str, bytes], messages.fetch_request.ForgottenTopic] = {}
        for topic_partition, topic_id in session.take_forgotten():
            name = topic_partition.topic
            entry = forgotten.setdefault((name, topic_id), m.ForgottenTopic(topic=name, topic_id=topic_id))
            entry.partitions.append(topic_partition.partition)
        request = m.FetchRequest(
            max_wait_ms=int(wait_ms),
            min_bytes=self._config.replica_fetch_min_bytes,
            max_bytes=self._config.replica_fetch_response_max_bytes,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
            replica_id=self._context.broker_id,
        )
        if version >= _REPLICA_STATE_FROM:
            request.replica_state = m.ReplicaState(
                replica_id=self._context.broker_id, replica_epoch=self._context.broker_epoch()
            )
        return request, wait_ms

    def _throttled_ms(self, following: _Following, now_ms: float) -> float:
        """How long a throttled replica that lags must not fetch, because all of them together exceed their rate (KIP-73)."""
        if following.is_in_sync or not self._counts_as_throttled(following.partition):
            return 0.0
        exceeded_ms = self._context.throttled_rate.exceeded_ms(now_ms)
        return min(exceeded_ms, float(self._config.replica_fetch_backoff_ms)) if exceeded_ms > 0 else 0.0

    def _counts_as_throttled(self, partition: Partition) -> bool:
        throttled = partition.log.config.follower_replication_throttled_replicas
        return is_throttled(throttled, partition.topic_partition.partition, self._context.broker_id)

    # One partition's answer

    def _take(self, following: _Following, data: messages.fetch_response.PartitionData) -> None:
        topic_partition = following.partition.topic_partition
        try:
            if data.error_code:
                self._take_error(following, code_of(data.error_code))
            elif data.diverging_epoch is not None and data.diverging_epoch.end_offset >= 0:
                self._truncate(following, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            else:
                self._append(following, data)
                following.failures = 0
        except KafkaError as problem:
            logger.warning("%s: cannot take what broker %d sent: %s", topic_partition, self._leader, problem)
            if following.partition.log.log_directory.offline_reason is not None:
                self._stop_following(topic_partition)
            else:
                self._back_off(following)

    def _append(self, following: _Following, data: messages.fetch_response.PartitionData) -> None:
        partition, log = following.partition, following.partition.log
        if data.records:
            log.append_as_follower(data.records, now_ms=self._context.wall_ms())
            self._context.bytes_in += len(data.records)
            if self._counts_as_throttled(partition):
                self._context.throttled_rate.add(len(data.records), self._context.now_ms())
            self._changed[partition.topic_partition] = None
        if data.log_start_offset > log.log_start_offset:
            log.delete_records(min(data.log_start_offset, log.log_end_offset))
            self._moved.append(log)
            self._changed[partition.topic_partition] = None
        following.is_in_sync = log.log_end_offset >= data.high_watermark
        partition.follow_high_watermark(data.high_watermark)

    def _take_error(self, following: _Following, code: ErrorCode) -> None:
        partition = following.partition
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._leave_out_until(following, float("inf"))  # until the leader has said where its log begins and ends
            task = start_task(
                self._find_range(following), f"asking for the leader's offsets of {partition.topic_partition}"
            )
            self._range_tasks[task] = None
            task.add_done_callback(self._range_tasks.pop)
        elif code == ErrorCode.FENCED_LEADER_EPOCH:
            logger.info("%s: leader epoch %d is over", partition.topic_partition, following.leader_epoch)
            self._stop_following(partition.topic_partition)
        else:
            if code not in _WAIT_AND_RETRY:
                logger.warning("%s: broker %d answers %s", partition.topic_partition, self._leader, code.name)
            self._back_off(following)

    def _back_off(self, following: _Following) -> None:
        following.failures += 1
        backoff_ms = Backoff(_FIRST_BACKOFF_MS, self._config.replica_fetch_backoff_ms).delay_ms(following.failures)
        self._leave_out_until(following, self._context.now_ms() + backoff_ms)

    def _leave_out_until(self, following: _Following, next_try_ms: float) -> None:
        """Out of the session too: a partition with an error would have every fetch answered at once."""
        following.next_try_ms = next_try_ms
        self._session.forget(following.partition.topic_partition)
        self._changed[following.partition.topic_partition] = None

    def _truncate(self, following: _Following, epoch: int, end_offset: int) -> None:
        partition, log = following.partition, following.partition.log
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
        self._changed[partition.topic_partition] = None

    async def _find_range(self, following: _Following) -> None:
        """After OFFSET_OUT_OF_RANGE: our log is longer than the leader's, or begins where the leader has no records any more."""
        partition, log = following.partition, following.partition.log
        try:
            connection = await self._connected()
            latest = await self._list_offset(connection, following, -1)
            if latest < log.log_end_offset:
                logger.warning(
                    "%s: leader ends at %d, we at %d: truncating", partition.topic_partition, latest, log.log_end_offset
                )
                log.truncate_to(latest)
            else:
                earliest = await self._list_offset(connection, following, -2)
                if earliest > log.log_end_offset:
                    log.truncate_fully_and_start_at(earliest)
                elif log.config.message_format_acts and log.latest_epoch is not None:  # it has messages without epochs
                    log.truncate_without_epochs(log.high_watermark)
                else:
                    raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"it has {earliest} to {latest}, and refuses")
            following.next_try_ms = 0.0
            self._changed[partition.topic_partition] = None
            self._wake.set()
        except _NoLongerFollowed:
            return
        except (OSError, TimeoutError, KafkaError) as problem:
            logger.warning("%s: asking for the leader's offsets: %s", partition.topic_partition, problem)
            if self._is_current(following):
                self._back_off(following)
        except Exception:
            if self._is_current(following):  # else it would be left out for ever
                self._back_off(following)
            raise

    async def _list_offset(self, connection: Connection, following: _Following, timestamp: int) -> int:
        context, topic_partition = self._context, following.partition.topic_partition
        request = offset_request(context.broker_id, topic_partition, following.leader_epoch, timestamp)
        response = await connection.request(request, context.versions.list_offsets)
        if not self._is_current(following):
            raise _NoLongerFollowed
        return offset_in(response, topic_partition)

    async def _ask_epochs(self, connection: Connection) -> None:
        """Before the first fetch from a leader older than Fetch 12: where do our epochs end there?"""
        if not self._may_ask_epochs:
            return
        unasked = [f for f in self._followed.values() if f.must_ask_epoch]
        self._may_ask_epochs = bool(unasked)
        asking = [f for f in unasked if f.next_try_ms <= self._context.now_ms()]
        if not asking:
            return
        m = messages.offset_for_leader_epoch_request
        topics: dict[str, messages.offset_for_leader_epoch_request.OffsetForLeaderTopic] = {}
        for following in asking:
            tp = following.partition.topic_partition
            topic = topics.setdefault(tp.topic, m.OffsetForLeaderTopic(topic=tp.topic))
            latest = following.partition.log.latest_epoch
            topic.partitions.append(
                m.OffsetForLeaderPartition(
                    partition=tp.partition,
                    current_leader_epoch=following.leader_epoch,
                    leader_epoch=-1 if latest is None else latest,
                )
            )
        request = m.OffsetForLeaderEpochRequest(replica_id=self._context.broker_id, topics=list(topics.values()))
        response = await connection.request(request, self._context.versions.offset_for_leader_epoch)
        asked = {following.partition.topic_partition: following for following in asking}
        for result in response.topics:
            for answer in result.partitions:
                following_one = asked.get(TopicPartition(result.topic, answer.partition))
                if following_one is None or not self._is_current(following_one):
                    continue
                if answer.error_code:
                    self._take_error(following_one, code_of(answer.error_code))
                    continue
                log = following_one.partition.log
                latest = log.latest_epoch
                self._truncate(following_one, answer.leader_epoch, answer.end_offset)
                agreed = (
                    answer.end_offset < 0 or answer.leader_epoch in (latest, -1) or log.latest_epoch in (None, latest)
                )
                following_one.must_ask_epoch = not agreed
