"""Full and incremental fetches (KIP-227; Kafka's FetchContext): read the partitions, then answer at once or as a `delayed_fetch`."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from kafkalite.broker.fetch.delayed_fetch import DelayedFetch
from kafkalite.broker.fetch.fetch_authorization import judge, judge_session
from kafkalite.broker.fetch.leader_endpoints import FETCH_FROM, FetchLeaders
from kafkalite.broker.fetch.partition_reader import SessionlessWatch, changed_answers, note_look, note_told
from kafkalite.protocol import messages
from kafkalite.storage.cold_reads import LOADS_LIMIT
from kafkalite.storage.log.file_records import FileRecords
from kafkalite.storage.open_files import NotInMemory
from kafkalite.types import Buffer

if TYPE_CHECKING:
    from kafkalite.broker.fetch.fetch_sessions import FetchItem, FetchSession, FetchSessionCache, PartitionKey
    from kafkalite.broker.fetch.partition_reader import Answers, FetchParams, PartitionReader
    from kafkalite.broker.replication.follower_state import FetchRequester
    from kafkalite.broker.replication.replicas import Replicas
    from kafkalite.broker.requests.request_context import RequestContext
    from kafkalite.broker.settings.quotas import ClientQuotas
    from kafkalite.broker.traffic import Traffic
    from kafkalite.clock import Clock

    Topics: TypeAlias = dict[str | bytes, messages.fetch_response.FetchableTopicResponse]
    """By name, or id where topics go by id."""

AT_ONCE: Final = 2000
"""Partitions that one fetch looks at in one go."""
_INSTEAD_OF_WAITING_S: Final = 0.1


class Parts(Protocol):
    """What fetches use of the broker."""

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


class _Fetch(ABC):
    """What a full and an incremental fetch share: read, answer at once or later."""

    items: dict[PartitionKey, FetchItem]
    """All that is fetched, or all of the session."""

    def __init__(self, parts: Parts, params: FetchParams, context: RequestContext) -> None:
        self.parts, self.params, self.context = parts, params, context
        self.session_id = 0
        self.leaders: FetchLeaders | None = None

    @abstractmethod
    def wanted(self) -> tuple[list[FetchItem], FetchRequester]:
        """The partitions to look at now, and who fetches."""

    @abstractmethod
    def width(self) -> int:
        """How many partitions there are to look at now."""

    @abstractmethod
    def watch(self, on_ready: Callable[..., None]) -> Callable[[], None]:
        """Have `on_ready` called; returns what ends that."""

    @abstractmethod
    def told(self, answers: Answers) -> Answers:
        """What of `answers` goes into the response: an incremental fetch leaves out what has not changed (KIP-227)."""

    def start(self) -> messages.fetch_response.FetchResponse | asyncio.Future[messages.fetch_response.FetchResponse]:
        try:
            found = self.parts.partition_reader.read_in_memory(*self.wanted_within_params())
        except NotInMemory as cold:
            return asyncio.ensure_future(self._start_later(cold))
        return self._answer_or_delay(*found)

    def wanted_within_params(self) -> tuple[list[FetchItem], FetchParams, FetchRequester]:
        items, requester = self.wanted()
        return items, self.params, requester

    def gather(self) -> tuple[Answers, int, bool]:
        """What is there now; waits for the medium if need be, which for what was just appended is never."""
        return self.parts.partition_reader.read_all(*self.wanted_within_params())

    async def _start_later(self, cold: NotInMemory) -> messages.fetch_response.FetchResponse:
        """As `start`, once the first records are in memory."""
        reader = self.parts.partition_reader
        for _ in range(LOADS_LIMIT):
            await reader.cold_reads.load(cold)
            try:
                found = reader.read_in_memory(*self.wanted_within_params())
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
        enough = total >= self.params.min_bytes or urgent or self.params.max_wait_ms == 0
        if enough or not self.may_wait():
            return self.reply(answers)
        release: list[Callable[[], None]] = []
        delayed = DelayedFetch(
            self.params, total, self.gather, self.reply, lambda: release[0](), self.width, self.context.portions
        )
        release.append(self.watch(delayed.notify))
        partitions, items = self.parts.replicas.partitions, self.items
        looked_at = [items[key].topic_partition for key in answers]
        delayed.note_sizes(partitions[tp] for tp in looked_at if tp in partitions)
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
        if self.params.is_follower or not quota.is_set:
            return 0
        size = sum(len(data.records or b"") for data in answers.values())
        now_ms = self.parts.clock.monotonic_ms()
        return quota.admit(self.context.user, self.context.client_id or "", size, now_ms) if size else 0

    def throttled(self, throttle_ms: int) -> messages.fetch_response.FetchResponse:
        """Nothing is answered, so all of it is there for the next fetch."""
        self.context.connection.mute(throttle_ms / 1000)
        return messages.fetch_response.FetchResponse(session_id=self.session_id, throttle_time_ms=throttle_ms)

    def reply(self, answers: Answers) -> messages.fetch_response.FetchResponse:
        if throttle_ms := self.throttle_ms(answers):
            return self.throttled(throttle_ms)
        topics: Topics = {}
        self.tell(answers, topics)
        return self.response(topics)

    def tell(self, answers: Answers, topics: Topics) -> None:
        """Add these answers to the topics of the response."""
        m = messages.fetch_response
        for key, data in self.told(answers).items():
            topic = topics.get(key[0])
            if topic is None:
                item = self.items[key]
                topic = topics[key[0]] = m.FetchableTopicResponse(
                    topic=item.topic_partition.topic, topic_id=item.topic_id
                )
            topic.partitions.append(data)
            if data.error_code and self.params.version >= FETCH_FROM:
                if self.leaders is None:
                    self.leaders = FetchLeaders(self.parts.replicas, self.context.listener)
                self.leaders.name_leader(self.items[key].topic_partition, data)
            if data.records:
                self._count(topic.topic, data.records)

    def response(self, topics: Topics) -> messages.fetch_response.FetchResponse:
        reply = messages.fetch_response.FetchResponse(session_id=self.session_id, responses=list(topics.values()))
        if self.leaders is not None:
            reply.node_endpoints = list(self.leaders.endpoints.values())
        return reply

    def _count(self, topic: str, records: Buffer) -> None:
        traffic = self.parts.traffic
        if self.params.is_follower:
            traffic.replication_bytes_out += len(records)
        else:
            traffic.fetched(topic, records.head if isinstance(records, FileRecords) else records, len(records))


class FullFetch(_Fetch):
    """A fetch that names all its partitions; answers all of them."""

    def __init__(
        self,
        parts: Parts,
        session: FetchSession | None,
        items: dict[PartitionKey, FetchItem],
        params: FetchParams,
        context: RequestContext,
    ) -> None:
        super().__init__(parts, params, context)
        self.session, self.items = session, items
        self.session_id = session.session_id if session else 0
        self.requester = session or SessionlessWatch(parts.clock.monotonic_ms())

    def wanted(self) -> tuple[list[FetchItem], FetchRequester]:
        return list(self.items.values()), self.requester

    def may_wait(self) -> bool:
        """Without a session it may not while others wait for very many partitions; its next one has to wait a little, then."""
        if self.session is None and not self.parts.partition_reader.may_wait_for(len(self.items)):
            self.context.connection.mute(_INSTEAD_OF_WAITING_S)
            return False
        return bool(self.items)

    def width(self) -> int:
        return len(self.items)

    def watch(self, on_ready: Callable[..., None]) -> Callable[[], None]:
        requester = self.requester
        requester.on_ready = on_ready
        if not isinstance(requester, SessionlessWatch):
            return lambda: setattr(requester, "on_ready", None)
        replicas, reader = self.parts.replicas, self.parts.partition_reader
        reader.awaited_partitions += len(self.items)
        for item in self.items.values():
            replicas.watch(item.topic_partition, requester)

        def release() -> None:
            requester.on_ready = (
                None  # it holds the delayed fetch, which holds this one: the garbage collector would have to find them
            )
            reader.awaited_partitions -= len(self.items)
            for item in self.items.values():
                replicas.unwatch(item.topic_partition, requester)

        return release

    def throttled(self, throttle_ms: int) -> messages.fetch_response.FetchResponse:
        """The session that was to begin does not, as the client would not know what is in it."""
        if self.session is not None:
            self.parts.fetch_sessions.close(self.session_id)
            self.session_id = 0
        return super().throttled(throttle_ms)

    def told(self, answers: Answers) -> Answers:
        if self.session is not None:
            for key, data in answers.items():
                item = self.session.items.get(key)
                if item is not None:  # else the session was closed while this fetch waited
                    note_told(item, data)
                    note_look(self.session, item, data)
        return answers


class IncrementalFetch(_Fetch):
    """A fetch within a session: looks at what is ready, answers what is news."""

    def __init__(
        self,
        parts: Parts,
        session: FetchSession,
        params: FetchParams,
        context: RequestContext,
    ) -> None:
        super().__init__(parts, params, context)
        judge_session(session, params, context)
        self.session, self.items = session, session.items
        self.session_id = session.session_id
        self.leaves_out = False

    def wanted(self) -> tuple[list[FetchItem], FetchRequester]:
        """Where many are ready some of them, which go to the back: what a response leaves out the client asks for in the next fetch."""
        items, ready = self.items, self.session.ready
        looked_at: Iterable[PartitionKey] = ready
        self.leaves_out = len(ready) > AT_ONCE
        if self.leaves_out:
            looked_at = list(islice(ready, AT_ONCE))
            for key in looked_at:
                del ready[key]
                ready[key] = None
        wanted = [items[key] for key in looked_at if key in items]
        if self.session.nameless:
            self._find_names(wanted)
        return wanted, self.session

    def _find_names(self, items: Iterable[FetchItem]) -> None:
        """Name those whose topic id is known by now."""
        found = []
        for item in items:
            if item.is_nameless and (topic := self.parts.replicas.topic_name(item.topic_id)) is not None:
                self.parts.fetch_sessions.name(self.session, item, topic)
                found.append(item)
        if found:
            judge(found, self.params, self.context)

    def may_wait(self) -> bool:
        return not self.leaves_out

    def width(self) -> int:
        return len(self.session.ready)

    def has_news(self, answers: Answers) -> bool:
        """Followers hear soon of the high watermark. Consumers wait for records: it moves while a transaction keeps them back."""
        return self.params.is_follower and any(
            data.high_watermark != self.items[key].told_high_watermark for key, data in answers.items()
        )

    def watch(self, on_ready: Callable[..., None]) -> Callable[[], None]:
        self.session.on_ready = on_ready
        return lambda: setattr(self.session, "on_ready", None)

    def told(self, answers: Answers) -> Answers:
        return changed_answers(self.session, answers)
