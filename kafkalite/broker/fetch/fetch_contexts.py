"""Full and incremental fetches (KIP-227; Kafka's FetchContext): read the partitions, then answer at once or as a `delayed_fetch`."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from kafkalite.broker.fetch.delayed_fetch import DelayedFetch
from kafkalite.broker.fetch.fetch_authorization import authorize_session, is_denied
from kafkalite.broker.fetch.leader_endpoints import FETCH_FROM, FetchLeaders
from kafkalite.broker.parts import HasClock, HasQuotas, HasReplicas, HasTraffic
from kafkalite.protocol import messages
from kafkalite.storage.log.file_records import FileRecords
from kafkalite.storage.open_files import NotInMemory
from kafkalite.types import Buffer

if TYPE_CHECKING:
    from kafkalite.broker.fetch.fetch_sessions import Answers, FetchItem, FetchSession, FetchSessionCache, PartitionKey
    from kafkalite.broker.fetch.partition_reader import FetchParams, PartitionReader, ReadAnswers
    from kafkalite.broker.replication.follower_state import FetchRequester
    from kafkalite.broker.replication.partition import Partition
    from kafkalite.broker.requests.request_context import RequestContext

    Response: TypeAlias = messages.fetch_response.FetchResponse
    Reply: TypeAlias = Response | asyncio.Future[Response]
    Topics: TypeAlias = dict[str | bytes, messages.fetch_response.FetchableTopicResponse]
    """Topics of a response by name, or by id where topics go by id."""

AT_ONCE: Final = 2000
"""Partitions that one fetch reads without letting the event loop serve others in between."""
_INSTEAD_OF_WAITING_S: Final = 0.1
_NEWS_AT_ONCE: Final = 64
"""Largest fetch that waits some milliseconds for records to be sent with its news. Reading a larger one again costs more than that."""


class Parts(HasClock, HasQuotas, HasReplicas, HasTraffic, Protocol):
    """The parts of the broker that fetches use."""

    @property
    def fetch_sessions(self) -> FetchSessionCache: ...

    @property
    def partition_reader(self) -> PartitionReader: ...


class FetchContext(ABC):
    """One fetch, from the read of its partitions to its response; `items` are its partitions, or all of its session."""

    items: dict[PartitionKey, FetchItem]

    def __init__(self, parts: Parts, params: FetchParams, context: RequestContext) -> None:
        self.parts, self.params, self.context = parts, params, context
        self.session_id = 0
        self.leaders: FetchLeaders | None = None

    @abstractmethod
    def select_items(self) -> tuple[Iterable[FetchItem], FetchRequester]:
        """Return the partitions to read now, and the requester of the fetch."""

    @abstractmethod
    def count_items(self) -> int:
        """Return how many partitions there are to read now."""

    @abstractmethod
    def watch(self, on_ready: Callable[[Partition, bool], None]) -> Callable[[], None]:
        """Call `on_ready` on changes of the partitions until the returned function is called."""

    @abstractmethod
    def select_answers(self, answers: Answers) -> Answers:
        """Return the answers that the response contains: an incremental one leaves out what has not changed (KIP-227)."""

    def start(self) -> Reply:
        """Return the response, or a future of it while records come from the medium or are too few."""
        items, requester = self.select_items()
        try:
            read = self.parts.partition_reader.read_in_memory(items, self.params, requester)
        except NotInMemory as cold:
            return asyncio.ensure_future(self._start_cold(cold))
        return self._respond_or_delay(*read)

    async def _start_cold(self, cold: NotInMemory) -> Response:
        """Return the response once the first records are in memory."""
        read = await self.parts.partition_reader.load_and_read(cold, self.params, self.select_items)
        reply = self._respond_or_delay(*read)
        return await reply if isinstance(reply, asyncio.Future) else reply

    def read(self) -> ReadAnswers:
        """Read the partitions; wait for the medium if need be, which for what was just appended is never."""
        items, requester = self.select_items()
        return self.parts.partition_reader.read_all(items, self.params, requester)

    def _respond_or_delay(self, answers: Answers, total: int, urgent: bool) -> Reply:
        params = self.params
        if total >= params.min_bytes or urgent or params.max_wait_ms == 0 or not self.may_wait():
            return self.respond(answers)
        has_news = self.has_news(answers)
        if has_news and len(answers) > _NEWS_AT_ONCE:
            return self.respond(answers)
        release: list[Callable[[], None]] = []
        delayed = DelayedFetch(
            params, total, self.read, self.respond, lambda: release[0](), self.count_items, self.context.portions
        )
        release.append(self.watch(delayed.notify))
        partitions, items = self.parts.replicas.partitions, self.items
        read = [items[key].topic_partition for key in answers]
        delayed.note_sizes(partitions[tp] for tp in read if tp in partitions)
        if has_news:
            delayed.expire_soon()
        delayed.future.add_done_callback(lambda _: delayed.close())
        return delayed.future

    def may_wait(self) -> bool:
        return True

    def has_news(self, answers: Answers) -> bool:
        """True if something changed that is no reason to answer at once."""
        return False

    def throttle_ms(self, answers: Answers) -> int:
        """Return for how long the consumer is muted instead of getting these answers; 0 if it gets them."""
        quota = self.parts.quotas.fetched
        if self.params.is_follower or not quota.is_set:
            return 0
        size = sum(len(data.records or b"") for data in answers.values())
        now_ms = self.parts.clock.monotonic_ms()
        return quota.admit(self.context.user, self.context.client_id or "", size, now_ms) if size else 0

    def throttle(self, throttle_ms: int) -> Response:
        """Mute the connection and return a response without answers, which the next fetch gets."""
        self.context.connection.mute(throttle_ms / 1000)
        return messages.fetch_response.FetchResponse(session_id=self.session_id, throttle_time_ms=throttle_ms)

    def respond(self, answers: Answers) -> Response:
        """Return the response with these answers, or a throttled one."""
        if throttle_ms := self.throttle_ms(answers):
            return self.throttle(throttle_ms)
        topics: Topics = {}
        self.add_answers(answers, topics)
        return self.make_response(topics)

    def add_answers(self, answers: Answers, topics: Topics) -> None:
        """Add what of these answers the client needs to the topics of the response."""
        m = messages.fetch_response
        for key, data in self.select_answers(answers).items():
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
                self._count_bytes(topic.topic, data.records)

    def make_response(self, topics: Topics) -> Response:
        response = messages.fetch_response.FetchResponse(session_id=self.session_id, responses=list(topics.values()))
        if self.leaders is not None:
            response.node_endpoints = list(self.leaders.endpoints.values())
        return response

    def _count_bytes(self, topic: str, records: Buffer) -> None:
        traffic = self.parts.traffic
        if self.params.is_follower:
            traffic.replication_bytes_out += len(records)
        else:
            traffic.count_fetched(topic, records.head if isinstance(records, FileRecords) else records, len(records))


class SessionlessWatch:
    """The watcher of a delayed fetch without a session, and its requester."""

    def __init__(self, now_ms: float) -> None:
        self.last_fetch_ms = now_ms
        self.on_ready: Callable[[Partition, bool], None] | None = None

    def on_append(self, partition: Partition) -> None:
        if self.on_ready is not None:
            self.on_ready(partition, True)

    on_leader_epoch = on_high_watermark = on_append

    def on_isr_exit(self, partition: Partition) -> None:
        """Do nothing: each fetch without a session reads all partitions."""


class FullFetch(FetchContext):
    """A fetch that names all its partitions and answers all of them, in a new session or without one."""

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

    def select_items(self) -> tuple[Iterable[FetchItem], FetchRequester]:
        return self.items.values(), self.requester

    def count_items(self) -> int:
        return len(self.items)

    def may_wait(self) -> bool:
        """True unless fetches without a session wait for very many partitions; the client's next fetch is then delayed a little."""
        if self.session is None and not self.parts.partition_reader.may_wait_for(len(self.items)):
            self.context.connection.mute(_INSTEAD_OF_WAITING_S)
            return False
        return bool(self.items)

    def watch(self, on_ready: Callable[[Partition, bool], None]) -> Callable[[], None]:
        requester = self.requester
        requester.on_ready = on_ready
        if not isinstance(requester, SessionlessWatch):
            return lambda: setattr(requester, "on_ready", None)
        replicas, reader = self.parts.replicas, self.parts.partition_reader
        reader.awaited_partitions += len(self.items)
        for item in self.items.values():
            replicas.watch(item.topic_partition, requester)

        def release() -> None:
            # It holds the delayed fetch, which holds this one: the garbage collector would have to find them.
            requester.on_ready = None
            reader.awaited_partitions -= len(self.items)
            for item in self.items.values():
                replicas.unwatch(item.topic_partition, requester)

        return release

    def throttle(self, throttle_ms: int) -> Response:
        """Close the session that this fetch opened too: the client would not know what is in it."""
        if self.session is not None:
            self.parts.fetch_sessions.close(self.session_id)
            self.session_id = 0
        return super().throttle(throttle_ms)

    def select_answers(self, answers: Answers) -> Answers:
        if self.session is not None:
            for key, data in answers.items():
                item = self.session.items.get(key)
                if item is not None:  # else the session was closed while this fetch waited
                    item.note_sent(data, self.session.next_epoch)
                    self.session.note_read(item, data)
            self.session.end_response()
        return answers


class IncrementalFetch(FetchContext):
    """A fetch within a session: reads the partitions that are ready, answers those with news."""

    def __init__(self, parts: Parts, session: FetchSession, params: FetchParams, context: RequestContext) -> None:
        super().__init__(parts, params, context)
        authorize_session(session, params.is_follower, context)
        self.session, self.items = session, session.items
        self.session_id = session.session_id
        self.leaves_out = False

    def select_items(self) -> tuple[Iterable[FetchItem], FetchRequester]:
        """Return the items that are ready, at most `AT_ONCE`, which go to the back: the client fetches the others next."""
        items, ready = self.items, self.session.ready
        keys: Iterable[PartitionKey] = ready
        self.leaves_out = len(ready) > AT_ONCE
        if self.leaves_out:
            keys = list(islice(ready, AT_ONCE))
            for key in keys:
                del ready[key]
                ready[key] = None
        selected = [items[key] for key in keys if key in items]
        if self.session.unresolved:
            self._resolve_names(selected)
        return selected, self.session

    def _resolve_names(self, items: Iterable[FetchItem]) -> None:
        """Name the items whose topic id is known by now, and check the permissions for them."""
        for item in items:
            if item.is_unresolved and (topic := self.parts.replicas.topic_name(item.topic_id)) is not None:
                self.parts.fetch_sessions.resolve(self.session, item, topic)
                item.is_denied = is_denied(topic, self.params.is_follower, self.context)

    def may_wait(self) -> bool:
        return not self.leaves_out

    def count_items(self) -> int:
        return len(self.session.ready)

    def has_news(self, answers: Answers) -> bool:
        """True if a follower is to learn of a high watermark. Consumers wait for records: it moves while a transaction holds them back."""
        return self.params.is_follower and any(
            data.high_watermark != self.items[key].sent_high_watermark for key, data in answers.items()
        )

    def watch(self, on_ready: Callable[[Partition, bool], None]) -> Callable[[], None]:
        self.session.on_ready = on_ready
        return lambda: setattr(self.session, "on_ready", None)

    def select_answers(self, answers: Answers) -> Answers:
        return self.session.select_changed(answers)
