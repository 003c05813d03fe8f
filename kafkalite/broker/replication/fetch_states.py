"""Fetch states of the partitions that follow one leader, and decisions about its answers (Kafka's PartitionFetchState). Pure.

A partition is named by the next request while its state is *changed*: it is new, its log differs from what the leader knows of, or it is
tried again. All others are in the incremental session (KIP-227), but for those that back off (`retries`): one with an error would have
every fetch answered at once.

When a controller begins a leader epoch in a hundred thousand partitions, most of them are idle, and their leaders are the same as before.
Those are named once the roles of all have come, some at a time: until then the session has them in their earlier epoch, so the leader, as
soon as it has anything for one of them, refuses it, and it is named at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkalite.backoff import Backoff
from kafkalite.broker.replication.leader_offsets import code_of
from kafkalite.broker.replication.retries import Retries
from kafkalite.broker.settings.rates import ReplicationRate, is_throttled
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.fetch_session_handler import FULL_FETCH_EPOCH, FetchSessionHandler
from kafkalite.types import NO_TOPIC_ID, BrokerId, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.replication.partition import Partition
    from kafkalite.config.broker import BrokerConfig

    FetchRequest: TypeAlias = messages.fetch_request.FetchRequest
    FetchTopic: TypeAlias = messages.fetch_request.FetchTopic
    ForgottenTopic: TypeAlias = messages.fetch_request.ForgottenTopic
    FetchResponse: TypeAlias = messages.fetch_response.FetchResponse
    PartitionData: TypeAlias = messages.fetch_response.PartitionData
    OffsetForLeaderTopic: TypeAlias = messages.offset_for_leader_epoch_request.OffsetForLeaderTopic
    OffsetForLeaderEpochRequest: TypeAlias = messages.offset_for_leader_epoch_request.OffsetForLeaderEpochRequest

DIVERGING_EPOCH_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
REPLICA_STATE_FROM: Final = 15
_FIRST_BACKOFF_MS: Final = 10.0
_SHORTEST_POLL_MS: Final = 25.0
_SHORTEST_RENEWAL_MS: Final = 50.0
_RENEWAL_MS: Final = 0.05
"""For each partition in the session: what naming all of them again costs both brokers, three times over."""
_RENEWAL_PAUSES: Final = 30
"""Renewals take a hundredth of the time at most: while thousands of partitions are created, each wave would find a long poll to give up."""
_NEW_LOG_MS: Final = 0.25
"""What each partition that is to be tried again adds to the delay of a new one: its leader may have to make a log for each."""
_NEW_ROLE_MS: Final = 0.02
"""What each partition that a leader refuses in one answer adds to the delay of each: it may have to take up the role for as many."""
_NAMES_KEPT: Final = 100
_WAITS_FROM: Final = 500
"""Roles that follow each other from which on those of idle partitions wait."""
_QUIET_MS: Final = 100.0
"""Time without a new role after which all have come."""
_LONGEST_WAIT_MS: Final = 5000.0
"""Longest time that they wait, or a quarter of replica.lag.time.max.ms if that is shorter."""
_WAITED_AT_ONCE: Final = 1000
_EPOCHS_FIRST_MS: Final = 1.0
"""Longest wait of a request beside partitions that must ask where their last epoch ends."""

WAIT_AND_RETRY: Final = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors of a leader that has not heard of its role or of the topic yet."""


class Step(Enum):
    """The reaction of a follower to a leader's answer about one partition."""

    APPEND = auto()
    TRUNCATE = auto()
    """Truncate to where the diverging epoch ends (KIP-595)."""
    FIND_RANGE = auto()
    """Ask for the leader's first and last offset."""
    DROP = auto()
    """Stop fetching: the leader epoch is over, and a LeaderAndIsr is on its way."""
    BACK_OFF = auto()


APPEND, TRUNCATE, FIND_RANGE, DROP, BACK_OFF = Step


def decide_step(data: PartitionData) -> Step:
    """Return what a follower does upon an answer to a fetch."""
    if data.error_code:
        return decide_step_after_error(code_of(data.error_code))
    if data.diverging_epoch is not None and data.diverging_epoch.end_offset >= 0:
        return TRUNCATE
    return APPEND


def decide_step_after_error(code: ErrorCode) -> Step:
    """Return what a follower does upon an error of one partition."""
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return FIND_RANGE
    return DROP if code == ErrorCode.FENCED_LEADER_EPOCH else BACK_OFF


@dataclass(slots=True)
class PartitionFetchState:
    """The progress of fetching one partition."""

    partition: Partition
    topic_id: bytes
    leader_epoch: int
    must_ask_epoch: bool = False
    """True until its log agrees with that of a leader older than Fetch 12 (OffsetForLeaderEpoch, KIP-101)."""
    is_in_sync: bool = False
    is_asked: bool = False
    """True once a request has named the partition in this leader epoch."""
    failures: int = 0
    """In a row."""


class FetchStates:
    """The partitions that are fetched from one leader, and the fetch session with it."""

    def __init__(self, broker_id: BrokerId, throttled_rate: ReplicationRate) -> None:
        self._broker_id, self._throttled_rate = broker_id, throttled_rate
        self.session = FetchSessionHandler()
        self.followed: dict[TopicPartition, PartitionFetchState] = {}
        self.changed: dict[TopicPartition, None] = {}
        self._retries = Retries()
        self._waiting: dict[TopicPartition, None] = {}
        """Idle partitions in a new leader epoch that the next requests need not name."""
        self._waiting_since_ms = 0.0
        self._roles_in_a_row = 0
        self._names: dict[bytes, str] = {}
        """Names of topics by id; also of some that are not followed any more."""
        self._without_id = 0
        """Number of partitions whose topic has no id."""
        self.may_ask_epochs = False
        """True if a partition may have to ask for epochs: to check all in each fetch would take the longer, the more there are."""
        self._refused = 0
        """Partitions that the leader refused in its latest answer."""
        self._last_added_ms = self._next_renewal_ms = float("-inf")

    def add(self, state: PartitionFetchState, now_ms: float) -> None:
        """Follow a partition, also one that is followed in another leader epoch; the next request names it, unless it can wait."""
        self._roles_in_a_row = self._roles_in_a_row + 1 if now_ms < self._last_added_ms + _QUIET_MS else 1
        self._last_added_ms = now_ms
        topic_partition, topic_id = state.partition.topic_partition, state.topic_id
        before = self.followed.get(topic_partition)
        self._without_id += (topic_id == NO_TOPIC_ID) - (before is not None and before.topic_id == NO_TOPIC_ID)
        self.may_ask_epochs |= state.must_ask_epoch
        self.followed[topic_partition] = state
        if self._roles_in_a_row > _WAITS_FROM and self._can_wait(state):
            if not self._waiting:
                self._waiting_since_ms = now_ms
            self._waiting[topic_partition] = None
        else:
            self.fetch_next(topic_partition)
        if len(self._names) > 2 * len(self.followed) + _NAMES_KEPT:
            self._names = {each.topic_id: each.partition.topic_partition.topic for each in self.followed.values()}
        self._names[topic_id] = topic_partition.topic

    def _can_wait(self, state: PartitionFetchState) -> bool:
        """True if the session of the same leader has the partition as it is, and all that is known of its log is committed."""
        partition = state.partition
        return (
            partition.began_in_sync
            and partition.topic_partition not in self.changed
            and partition.topic_partition not in self._retries
            and not state.must_ask_epoch
            and partition.log.log_end_offset == partition.high_watermark
            and self.session.knows(partition.topic_partition, state.topic_id)
        )

    def fetch_next(self, topic_partition: TopicPartition) -> None:
        """Name a partition in the next request."""
        self._waiting.pop(topic_partition, None)
        self._retries.take_out(topic_partition)
        self.changed[topic_partition] = None

    def _end_waits(self, now_ms: float, lag_max_ms: float) -> None:
        """Have the next request name some of those that wait, if all roles have come or it is time."""
        is_quiet = now_ms >= self._last_added_ms + _QUIET_MS
        if is_quiet or now_ms >= self._waiting_since_ms + min(_LONGEST_WAIT_MS, lag_max_ms / 4):
            for topic_partition in list(islice(self._waiting, _WAITED_AT_ONCE)):
                self.fetch_next(topic_partition)

    def remove(self, topic_partition: TopicPartition) -> None:
        """Follow a partition no longer; the next request takes it out of the session."""
        state = self.followed.pop(topic_partition, None)
        if state is not None:
            self._without_id -= state.topic_id == NO_TOPIC_ID
            self.changed.pop(topic_partition, None)
            self._waiting.pop(topic_partition, None)
            self._retries.take_out(topic_partition)
            self.session.forget(topic_partition)

    def is_current(self, state: PartitionFetchState) -> bool:
        """True if the partition is still followed in the state's leader epoch; to be asked after each await, as we may lead it by then."""
        partition = state.partition
        return self.followed.get(partition.topic_partition) is state and state.leader_epoch == partition.leader_epoch

    def restart_session(self, *, is_lost: bool = False) -> None:
        """Make the next request a full fetch; `is_lost`: the leader does not know the session any more."""
        self.session.reset(is_lost=is_lost)
        self._name_all()

    def _name_all(self) -> None:
        self.changed = {each: None for each in self.followed if each not in self._retries}
        self._waiting.clear()

    def back_off(self, state: PartitionFetchState, now_ms: float, longest_ms: float) -> None:
        """Leave a partition out for longer after each failure in a row, up to `longest_ms` (replica.fetch.backoff.ms).

        New partitions, those in their first leader epoch, wait the longer, the more there are: hundreds would be refused again and again.
        So do those that one answer refused, because followers may hear of an election of thousands before their leader does.
        """
        state.failures += 1
        delay_ms = Backoff(_FIRST_BACKOFF_MS, longest_ms).delay_ms(state.failures)
        if state.leader_epoch == 0:
            delay_ms = max(delay_ms, min(_NEW_LOG_MS * (len(self.changed) + len(self._retries)), longest_ms))
        else:
            delay_ms = max(delay_ms, min(_NEW_ROLE_MS * self._refused, longest_ms))
        self.leave_out_until(state, now_ms + delay_ms)

    def leave_out_until(self, state: PartitionFetchState, next_try_ms: float) -> None:
        """Take a partition out of the session until then, infinity for until `fetch_next`."""
        topic_partition = state.partition.topic_partition
        self.session.forget(topic_partition)
        self.changed.pop(topic_partition, None)
        self._retries.put_off(topic_partition, next_try_ms)

    # What is fetched

    def _longest_poll_ms(self, now_ms: float) -> float:
        """Return how long a long poll may last: as long as nothing has been added until now.

        So no partition waits long for its first fetch while roles change one after the other, and long polls double when that is over.
        """
        return max(_SHORTEST_POLL_MS, now_ms - self._last_added_ms)

    def is_worth_renewing(self, remaining_ms: float, now_ms: float) -> bool:
        """True if a long poll that lasts so much longer is better given up, though all partitions must be named again then."""
        if now_ms < self._next_renewal_ms:
            return False
        return remaining_ms > max(_SHORTEST_RENEWAL_MS, _RENEWAL_MS * len(self.session.sent))

    def note_renewal(self, now_ms: float) -> None:
        """Note that a long poll is given up; the next one is not before renewals have cost little of the time again."""
        self._next_renewal_ms = now_ms + _RENEWAL_PAUSES * _RENEWAL_MS * len(self.session.sent)

    def choose_version(self, newest: int) -> int:
        """Return the version of Fetch: one with topic names while some topic has no id."""
        return TOPIC_IDS_FROM - 1 if newest >= TOPIC_IDS_FROM and self._without_id else newest

    def make_request(
        self, version: int, now_ms: float, config: BrokerConfig, broker_epoch: int
    ) -> tuple[FetchRequest | None, float]:
        """Return the next request, None while every partition backs off, and how long it may wait in ms."""
        m = messages.fetch_request
        session, wait_ms = self.session, float(config.replica_fetch_wait_max_ms)
        if session.uses_topic_ids != (version >= TOPIC_IDS_FROM):
            session.uses_topic_ids = version >= TOPIC_IDS_FROM
            self.restart_session()
        if self._waiting:
            self._end_waits(now_ms, config.replica_lag_time_max_ms)
        self.changed |= dict.fromkeys(self._retries.take_due(now_ms))
        topics = self._take_changed(now_ms, config)
        if self.changed:
            wait_ms = _EPOCHS_FIRST_MS
        wait_ms = min(wait_ms, self._retries.wait_ms(now_ms))
        if not session.sent:
            return None, wait_ms
        wait_ms = min(wait_ms, self._longest_poll_ms(now_ms))
        if self._waiting and topics:
            wait_ms = min(wait_ms, _SHORTEST_POLL_MS)
        request = m.FetchRequest(
            max_wait_ms=int(wait_ms),
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=topics,
            forgotten_topics_data=self._forgotten_topics(),
            replica_id=self._broker_id,
        )
        if version >= REPLICA_STATE_FROM:
            request.replica_state = m.ReplicaState(replica_id=self._broker_id, replica_epoch=broker_epoch)
        return request, wait_ms

    def _take_changed(self, now_ms: float, config: BrokerConfig) -> list[FetchTopic]:
        """Return what the next request names; only those that must ask where their last epoch ends first stay changed."""
        m = messages.fetch_request
        topics: dict[str, FetchTopic] = {}
        for topic_partition in list(self.changed):
            state = self.followed[topic_partition]
            if (exceeded_ms := self._throttled_ms(state, now_ms, config)) > 0:
                self.leave_out_until(state, now_ms + exceeded_ms)
                continue
            if state.must_ask_epoch:
                continue
            del self.changed[topic_partition]
            state.is_asked = True
            self.session.send(topic_partition, state.topic_id)
            topic = topics.get(topic_partition.topic)
            if topic is None:
                topic = topics[topic_partition.topic] = m.FetchTopic(
                    topic=topic_partition.topic, topic_id=state.topic_id
                )
            log = state.partition.log
            latest = log.latest_epoch
            topic.partitions.append(
                m.FetchPartition(
                    partition=topic_partition.partition,
                    current_leader_epoch=state.leader_epoch,
                    fetch_offset=log.log_end_offset,
                    last_fetched_epoch=-1 if latest is None else latest,
                    log_start_offset=log.log_start_offset,
                    partition_max_bytes=config.replica_fetch_max_bytes,
                )
            )
        if not self.changed:
            self.changed.clear()  # a dict that is emptied key by key keeps its memory
        return list(topics.values())

    def _forgotten_topics(self) -> list[ForgottenTopic]:
        m = messages.fetch_request
        topics: dict[tuple[str, bytes], ForgottenTopic] = {}
        for topic_partition, topic_id in self.session.take_forgotten():
            name = topic_partition.topic
            topic = topics.setdefault((name, topic_id), m.ForgottenTopic(topic=name, topic_id=topic_id))
            topic.partitions.append(topic_partition.partition)
        return list(topics.values())

    def _throttled_ms(self, state: PartitionFetchState, now_ms: float, config: BrokerConfig) -> float:
        """Return for how long a throttled replica that lags is left out, because all of them together exceed their rate (KIP-73)."""
        if state.is_in_sync or not self.counts_as_throttled(state.partition):
            return 0.0
        exceeded_ms = self._throttled_rate.exceeded_ms(now_ms)
        return min(exceeded_ms, float(config.replica_fetch_backoff_ms)) if exceeded_ms > 0 else 0.0

    def counts_as_throttled(self, partition: Partition) -> bool:
        """True if follower.replication.throttled.replicas names this replica."""
        throttled = partition.log.config.follower_replication_throttled_replicas
        return is_throttled(throttled, partition.topic_partition.partition, self._broker_id)

    # What the leader answers

    def match_answers(
        self, response: FetchResponse, version: int
    ) -> Iterator[tuple[PartitionFetchState, PartitionData]]:
        """Yield the answers of a response that are about what is followed now, each with its state."""
        answers = [
            (topic.topic_id, TopicPartition(name, data.partition_index), data)
            for topic in response.responses
            for name in [(topic.topic if version < TOPIC_IDS_FROM else self._names.get(topic.topic_id)) or ""]
            for data in topic.partitions
        ]
        refused = [topic_partition for _, topic_partition, data in answers if data.error_code]
        self._refused = len(refused)
        self._retries.note_answer(refused)
        for topic_id, topic_partition, data in answers:
            # One that was stopped and followed again meanwhile has not been sent yet: this answer is about its past.
            if not self.session.knows(topic_partition, topic_id):
                self.session.refuse(topic_partition, topic_id)
                continue
            state = self.followed[topic_partition]
            if not state.is_asked:  # about its earlier leader epoch, and not taken: the leader has something for it
                self.fetch_next(topic_partition)
            elif self.is_current(state):
                yield state, data

    def complete_fetch(self, session_id: int) -> None:
        """Continue in the session of that id; with 0 the leader keeps none, and the next request is a full fetch."""
        self.session.complete_fetch(session_id)
        if self.session.epoch == FULL_FETCH_EPOCH:
            self._name_all()

    # Leaders older than Fetch 12

    def select_epoch_askers(self, now_ms: float) -> list[PartitionFetchState]:
        """Return the partitions that have to ask where their last epoch ends at the leader before they are fetched."""
        if not self.may_ask_epochs:
            return []
        unasked = [state for state in self.followed.values() if state.must_ask_epoch]
        self.may_ask_epochs = bool(unasked)
        return [state for state in unasked if self._retries.due_ms(state.partition.topic_partition) <= now_ms]

    def make_epochs_request(self, states: Iterable[PartitionFetchState]) -> OffsetForLeaderEpochRequest:
        """Return the request for the ends of the last epochs of these partitions (KIP-101, KIP-279)."""
        m = messages.offset_for_leader_epoch_request
        topics: dict[str, OffsetForLeaderTopic] = {}
        for state in states:
            name, index = state.partition.topic_partition
            latest = state.partition.log.latest_epoch
            topics.setdefault(name, m.OffsetForLeaderTopic(topic=name)).partitions.append(
                m.OffsetForLeaderPartition(
                    partition=index,
                    current_leader_epoch=state.leader_epoch,
                    leader_epoch=-1 if latest is None else latest,
                )
            )
        return m.OffsetForLeaderEpochRequest(replica_id=self._broker_id, topics=list(topics.values()))
