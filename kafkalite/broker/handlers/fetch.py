"""Fetch (1): records for consumers and followers, with long polling and incremental sessions.

- 0 to 3 messages of the formats before record batches (`broker/old_fetch`); 1 throttle time; 3 max bytes of the response (KIP-74);
  4 isolation level; 5 log start offset; 7 sessions (KIP-227); 9 current leader epoch (KIP-320); 10 zstd; 11 rack and reads from
  followers (KIP-392); 12 last fetched epoch, the diverging epoch in the answer (KIP-595); 13 topic ids (KIP-516); 15 the follower's
  identity in a tagged field; 16 endpoints of the current leaders in the answer (KIP-951); 17 directory ids, which are ignored.
- A consumer over its consumer_byte_rate gets an answer without records and is silenced (KIP-219); a follower's throttled partitions are
  left out while leader.replication.throttled.rate is exceeded (KIP-73).
- Where an authorizer is, consumers need READ of each topic and followers CLUSTER_ACTION, in each fetch of a session again.
- Not done: tiered storage.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from kafkalite.broker.cold_reads import LOADS_LIMIT
from kafkalite.broker.delayed_fetch import DelayedFetch
from kafkalite.broker.fetch_authorization import CLUSTER_ACTION, READ, judge, judge_session
from kafkalite.broker.fetch_sessions import FIRST_EPOCH, SESSIONLESS_EPOCH, FetchItem, FetchSession
from kafkalite.broker.fetching import (
    FetchLimits,
    SessionlessWatch,
    changed_answers,
    note_look,
    note_told,
    replica_id_of,
)
from kafkalite.broker.large_fetch import AT_ONCE, ManyPartitions, is_much, pieces, session_of_many
from kafkalite.broker.old_fetch import ALL_KNOWN_FROM, BATCHES_FROM, OldFetch, in_known_errors, tell_known_errors
from kafkalite.broker.request_context import RequestContext
from kafkalite.broker.served_api import served
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.storage.open_files import NotInMemory
from kafkalite.types import Buffer, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.fetch_sessions import FetchSessionCache
    from kafkalite.broker.fetching import Answers, PartitionData, PartitionReader
    from kafkalite.broker.follower_state import FetchRequester
    from kafkalite.broker.quotas import ClientQuotas
    from kafkalite.broker.replicas import Replicas
    from kafkalite.broker.traffic import Traffic
    from kafkalite.clock import Clock
    from kafkalite.config.broker import BrokerConfig

    Topics: TypeAlias = dict[str, messages.fetch_response.FetchableTopicResponse]

_TOPIC_IDS_FROM = 13


class Parts(Protocol):
    """What these handlers use of the broker."""

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def quotas(self) -> ClientQuotas: ...

    @property
    def traffic(self) -> Traffic: ...

    @property
    def replicas(self) -> Replicas: ...

    @property
    def fetch_sessions(self) -> FetchSessionCache: ...

    @property
    def partition_reader(self) -> PartitionReader: ...


def fetch(
    parts: Parts, request: messages.fetch_request.FetchRequest, context: RequestContext
) -> messages.fetch_response.FetchResponse | asyncio.Future[messages.fetch_response.FetchResponse]:
    """The reply, or a future of it while the fetch is delayed."""
    if is_much(request):
        return asyncio.ensure_future(_fetch_much(parts, request, context))
    limits = _limits(parts, request, context)
    version = context.api_version
    uses_ids = version >= _TOPIC_IDS_FROM
    items, unknown = _items(parts, request.topics, uses_ids, limits, context)
    if not uses_ids and version < BATCHES_FROM:
        return asyncio.ensure_future(_old_fetch(parts, items, limits, context).answered())
    try:
        session, is_full = _session(parts, request, items, uses_ids, limits)
    except KafkaError as problem:
        return messages.fetch_response.FetchResponse(error_code=problem.code)
    if session is not None and not is_full:
        reply = _Incremental(parts, session, limits, unknown, context).start()
    else:
        reply = FullFetch(parts, session, items, limits, unknown, context).start()
    return reply if uses_ids or version >= ALL_KNOWN_FROM else in_known_errors(parts, reply, version)


def _old_fetch(parts: Parts, items: list[FetchItem], limits: FetchLimits, context: RequestContext) -> OldFetch:
    def begin(
        items: list[FetchItem], limits: FetchLimits
    ) -> messages.fetch_response.FetchResponse | asyncio.Future[messages.fetch_response.FetchResponse]:
        fetching = FullFetch(parts, None, items, limits, [], context)
        if len(items) > AT_ONCE:
            return asyncio.ensure_future(ManyPartitions(fetching, context.portions.pace()).answered())
        return fetching.start()

    return OldFetch(parts, context, parts.partition_reader.conversion_cache, items, limits, begin)


def _limits(parts: Parts, request: messages.fetch_request.FetchRequest, context: RequestContext) -> FetchLimits:
    replica_id = replica_id_of(request)
    max_bytes = request.max_bytes
    if replica_id < 0:
        max_bytes = min(max_bytes, parts.config.fetch_max_bytes)
        quota = parts.quotas.fetched
        if quota.is_set and (most_bytes := quota.most_bytes(context.user, context.client_id or "")) is not None:
            max_bytes = min(max_bytes, int(most_bytes))
    return FetchLimits(
        replica_id,
        context.api_version,
        max(0, request.max_wait_ms),
        min(request.min_bytes, max_bytes),
        max_bytes,
        request.isolation_level,
        request.rack_id,
    )


def _items(
    parts: Parts,
    topics: Iterable[messages.fetch_request.FetchTopic],
    uses_ids: bool,
    limits: FetchLimits,
    context: RequestContext,
) -> tuple[list[FetchItem], list[tuple[bytes, PartitionData]]]:
    """The partitions asked for, and the answers of those whose topic id nobody knows."""
    items: list[FetchItem] = []
    unknown: list[tuple[bytes, PartitionData]] = []
    for topic in topics:
        name = parts.replicas.topic_name(topic.topic_id) if uses_ids else topic.topic
        for asked in topic.partitions:
            if name is None:
                data = messages.fetch_response.PartitionData(
                    partition_index=asked.partition,
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                    high_watermark=-1,
                    aborted_transactions=[],
                    records=b"",
                )
                unknown.append((topic.topic_id, data))
                continue
            items.append(
                FetchItem(
                    TopicPartition(name, asked.partition),
                    topic.topic_id,
                    asked.fetch_offset,
                    asked.partition_max_bytes,
                    asked.current_leader_epoch,
                    asked.last_fetched_epoch,
                    asked.log_start_offset,
                )
            )
    judge(items, limits, context)
    return items, unknown


def _session(
    parts: Parts,
    request: messages.fetch_request.FetchRequest,
    items: list[FetchItem],
    uses_ids: bool,
    limits: FetchLimits,
) -> tuple[FetchSession | None, bool]:
    """(session or None, whether this fetch names all its partitions)."""
    sessions, now_ms = parts.fetch_sessions, parts.clock.monotonic_ms()
    if request.session_epoch in (FIRST_EPOCH, SESSIONLESS_EPOCH):
        if request.session_id:
            sessions.close(request.session_id)
        if request.session_epoch == SESSIONLESS_EPOCH:
            return None, True
        return sessions.open(items, limits.is_follower, uses_ids, now_ms), True
    session = sessions.resume(request.session_id, request.session_epoch, uses_ids)
    session.last_fetch_ms = now_ms
    sessions.forget(session, session.meant_by(request.forgotten_topics_data))
    sessions.update(session, items)
    return session, False


class _Fetch(ABC):
    """What a full and an incremental fetch share: read, answer at once or later."""

    def __init__(
        self,
        parts: Parts,
        limits: FetchLimits,
        unknown: list[tuple[bytes, PartitionData]],
        context: RequestContext,
    ) -> None:
        self.parts, self.limits, self.unknown, self.context = parts, limits, unknown, context
        self.session_id = 0

    @abstractmethod
    def wanted(self) -> tuple[list[FetchItem], FetchRequester]:
        """The partitions to look at now, and who fetches."""

    @abstractmethod
    def watch(self, on_ready: Callable[..., None]) -> Callable[[], None]:
        """Have `on_ready` called; returns what ends that."""

    @abstractmethod
    def topic_id(self, topic_partition: TopicPartition) -> bytes:
        """The id by which the topic was asked for, zeros where it was by name."""

    @abstractmethod
    def told(self, answers: Answers) -> Answers:
        """What of `answers` goes into the response: an incremental fetch leaves out what has not changed (KIP-227)."""

    def start(self) -> messages.fetch_response.FetchResponse | asyncio.Future[messages.fetch_response.FetchResponse]:
        try:
            found = self.parts.partition_reader.read_in_memory(*self.wanted_within_limits())
        except NotInMemory as cold:
            return asyncio.ensure_future(self._start_later(cold))
        return self._answer_or_delay(*found)

    def wanted_within_limits(self) -> tuple[list[FetchItem], FetchLimits, FetchRequester]:
        items, requester = self.wanted()
        return items, self.limits, requester

    def gather(self) -> tuple[Answers, int, bool]:
        """What is there now; waits for the medium if need be, which for what was just appended is never."""
        return self.parts.partition_reader.read_all(*self.wanted_within_limits())

    async def _start_later(self, cold: NotInMemory) -> messages.fetch_response.FetchResponse:
        """As `start`, once the first records are in memory."""
        reader = self.parts.partition_reader
        for _ in range(LOADS_LIMIT):
            await reader.cold_reads.load(cold)
            try:
                found = reader.read_in_memory(*self.wanted_within_limits())
                break
            except NotInMemory as problem:
                cold = problem
        else:
            found = self.gather()
        reply = self._answer_or_delay(*found)
        return await reply if isinstance(reply, asyncio.Future) else reply

    def _answer_or_delay(
        self, answers: Answers, total: int, urgent: bool
    ) -> messages.fetch_response.FetchResponse | asyncio.Future[messages.fetch_response.FetchResponse]:
        enough = total >= self.limits.min_bytes or urgent or self.unknown or self.limits.max_wait_ms == 0
        if enough or not self.may_wait():
            return self.reply(answers)
        release: list[Callable[[], None]] = []
        delayed = DelayedFetch(self.limits, total, self.gather, self.reply, lambda: release[0]())
        release.append(self.watch(delayed.notify))
        partitions = self.parts.replicas.partitions
        delayed.note_sizes(partitions[tp] for tp in answers if tp in partitions)
        if self.has_news(answers):
            delayed.expire_soon()
        delayed.future.add_done_callback(lambda _: delayed.close())
        return delayed.future

    def may_wait(self) -> bool:
        return True

    def has_news(self, answers: Answers) -> bool:
        """Is there anything to tell that is no reason to answer at once?"""
        return False

    def throttle_ms(self, answers: Answers) -> int:
        """How long the consumer must be silent instead of getting these answers; 0 when it gets them."""
        quota = self.parts.quotas.fetched
        if self.limits.is_follower or not quota.is_set:
            return 0
        size = sum(len(data.records or b"") for data in answers.values())
        now_ms = self.parts.clock.monotonic_ms()
        return quota.admit(self.context.user, self.context.client_id or "", size, now_ms) if size else 0

    def throttled(self, throttle_ms: int) -> messages.fetch_response.FetchResponse:
        """Nothing is told, so all of it is there for the next fetch."""
        self.context.connection.mute(throttle_ms / 1000)
        return messages.fetch_response.FetchResponse(session_id=self.session_id, throttle_time_ms=throttle_ms)

    def reply(self, answers: Answers) -> messages.fetch_response.FetchResponse:
        if throttle_ms := self.throttle_ms(answers):
            return self.throttled(throttle_ms)
        topics: Topics = {}
        self.tell(answers, topics)
        return self.response(topics)

    def tell(self, answers: Answers, topics: Topics) -> None:
        """Add what is told of these answers to the topics of the response."""
        m = messages.fetch_response
        for topic_partition, data in self.told(answers).items():
            topic = topics.get(topic_partition.topic)
            if topic is None:
                topic_id = self.topic_id(topic_partition)
                topic = topics[topic_partition.topic] = m.FetchableTopicResponse(
                    topic=topic_partition.topic, topic_id=topic_id
                )
            topic.partitions.append(data)
            if data.records:
                self._count(topic_partition.topic, data.records)

    def response(self, topics: Topics) -> messages.fetch_response.FetchResponse:
        m = messages.fetch_response
        responses = list(topics.values())
        for topic_id, data in self.unknown:
            responses.append(m.FetchableTopicResponse(topic_id=topic_id, partitions=[data]))
        return m.FetchResponse(session_id=self.session_id, responses=responses)

    def _count(self, topic: str, records: Buffer) -> None:
        traffic = self.parts.traffic
        if self.limits.is_follower:
            traffic.replication_bytes_out += len(records)
        else:
            traffic.fetched(topic, records)


class FullFetch(_Fetch):
    """A fetch that names all its partitions; answers all of them."""

    def __init__(
        self,
        parts: Parts,
        session: FetchSession | None,
        items: list[FetchItem],
        limits: FetchLimits,
        unknown: list[tuple[bytes, PartitionData]],
        context: RequestContext,
    ) -> None:
        super().__init__(parts, limits, unknown, context)
        self.session, self.items = session, items
        self.topic_ids = {item.topic_partition: item.topic_id for item in items}
        self.session_id = session.session_id if session else 0
        self.requester = session or SessionlessWatch(parts.clock.monotonic_ms())

    def wanted(self) -> tuple[list[FetchItem], FetchRequester]:
        return self.items, self.requester

    def may_wait(self) -> bool:
        return bool(self.items)

    def watch(self, on_ready: Callable[..., None]) -> Callable[[], None]:
        requester = self.requester
        requester.on_ready = on_ready
        if not isinstance(requester, SessionlessWatch):
            return lambda: setattr(requester, "on_ready", None)
        replicas = self.parts.replicas
        for item in self.items:
            replicas.watch(item.topic_partition, requester)

        def release() -> None:
            for item in self.items:
                replicas.unwatch(item.topic_partition, requester)

        return release

    def topic_id(self, topic_partition: TopicPartition) -> bytes:
        return self.topic_ids[topic_partition]

    def throttled(self, throttle_ms: int) -> messages.fetch_response.FetchResponse:
        """The session that was to begin does not, as the client would not know what is in it."""
        if self.session is not None:
            self.parts.fetch_sessions.close(self.session_id)
            self.session_id = 0
        return super().throttled(throttle_ms)

    def told(self, answers: Answers) -> Answers:
        if self.session is not None:
            for topic_partition, data in answers.items():
                item = self.session.items.get(topic_partition)
                if item is not None:  # else the session was closed while this fetch waited
                    note_told(item, data)
                    note_look(self.session, item, data)
        return answers


class _Incremental(_Fetch):
    """A fetch within a session: looks at what is ready, answers what is news."""

    def __init__(
        self,
        parts: Parts,
        session: FetchSession,
        limits: FetchLimits,
        unknown: list[tuple[bytes, PartitionData]],
        context: RequestContext,
    ) -> None:
        super().__init__(parts, limits, unknown, context)
        judge_session(session, limits, context)
        self.session = session
        self.session_id = session.session_id
        self.leaves_out = False

    def wanted(self) -> tuple[list[FetchItem], FetchRequester]:
        """Where many are ready some of them, which go to the back: what a response leaves out the client asks for in the next fetch."""
        items, ready = self.session.items, self.session.ready
        looked_at: Iterable[TopicPartition] = ready
        self.leaves_out = len(ready) > AT_ONCE
        if self.leaves_out:
            looked_at = list(islice(ready, AT_ONCE))
            for topic_partition in looked_at:
                del ready[topic_partition]
                ready[topic_partition] = None
        return [items[tp] for tp in looked_at if tp in items], self.session

    def may_wait(self) -> bool:
        return not self.leaves_out

    def has_news(self, answers: Answers) -> bool:
        """Followers hear soon of the high watermark. Consumers wait for records: it moves while a transaction keeps them back."""
        items = self.session.items
        return self.limits.is_follower and any(
            data.high_watermark != items[tp].told_high_watermark for tp, data in answers.items()
        )

    def watch(self, on_ready: Callable[..., None]) -> Callable[[], None]:
        self.session.on_ready = on_ready
        return lambda: setattr(self.session, "on_ready", None)

    def topic_id(self, topic_partition: TopicPartition) -> bytes:
        return self.session.items[topic_partition].topic_id

    def told(self, answers: Answers) -> Answers:
        return changed_answers(self.session, answers)


# Fetches of very many partitions


async def _fetch_much(
    parts: Parts, request: messages.fetch_request.FetchRequest, context: RequestContext
) -> messages.fetch_response.FetchResponse:
    """As `fetch`, in portions; a full one is answered as soon as there is anything, whatever min.bytes says."""
    limits = _limits(parts, request, context)
    uses_ids = context.api_version >= _TOPIC_IDS_FROM
    pace = context.portions.pace()
    asked: dict[TopicPartition, FetchItem] = {}
    unknown: list[tuple[bytes, PartitionData]] = []
    for piece in pieces(request.topics):
        await pace.unit(1 + len(piece.partitions))
        found, strange = _items(parts, [piece], uses_ids, limits, context)
        asked |= {item.topic_partition: item for item in found}  # who is named twice is asked as the last time
        unknown += strange
    items = list(asked.values())
    version = limits.version
    if version < BATCHES_FROM:
        return await _old_fetch(parts, items, limits, context).answered()
    try:
        session, is_full = await session_of_many(parts, request, items, uses_ids, limits, pace)
    except KafkaError as problem:
        return messages.fetch_response.FetchResponse(error_code=problem.code)
    del request  # which may be much larger than what is waited for
    if session is not None and not is_full:
        begun = _Incremental(parts, session, limits, unknown, context).start()
        reply = await begun if isinstance(begun, asyncio.Future) else begun
    else:
        reply = await ManyPartitions(FullFetch(parts, session, items, limits, unknown, context), pace).answered()
    if version < ALL_KNOWN_FROM:
        await tell_known_errors(parts, reply, version, pace)
    return reply


def _failed(
    request: messages.fetch_request.FetchRequest, code: ErrorCode, message: str | None
) -> messages.fetch_response.FetchResponse:
    """Before version 7 there is no error of the whole request."""
    m = messages.fetch_response
    return m.FetchResponse(
        error_code=code,
        responses=[
            m.FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    m.PartitionData(partition_index=p.partition, error_code=code, high_watermark=-1)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


APIS: Final = (served(ApiKey.FETCH, 0, 17, fetch, READ, CLUSTER_ACTION, failure=_failed),)
