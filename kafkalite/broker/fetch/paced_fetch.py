"""Full fetches of more than 2000 partitions, read in portions between which the event loop serves other requests.

Whatever max.wait says such a fetch is answered after a second.

Consumers and followers fetch by sessions, so that what is looked at is what changed. What is left are the fetches that begin a session, and
those of clients without one. Such a fetch is answered as soon as there is anything, whatever min.bytes says: to count what each of its
partitions gains would cost more than to answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.fetch.fetch_contexts import AT_ONCE
from kafkalite.broker.fetch.fetch_sessions import FIRST_EPOCH, SESSIONLESS_EPOCH, FetchItem, FetchSession
from kafkalite.broker.fetch.partition_reader import SessionlessWatch
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Pace, Work
from kafkalite.protocol import messages
from kafkalite.storage.cold_reads import LOADS_LIMIT
from kafkalite.storage.open_files import NotInMemory

if TYPE_CHECKING:
    from kafkalite.broker.fetch.fetch_contexts import FullFetch, Topics
    from kafkalite.broker.fetch.fetch_sessions import FetchSessionCache
    from kafkalite.broker.fetch.partition_reader import Answers, FetchParams
    from kafkalite.broker.replication.replicas import Replicas
    from kafkalite.clock import Clock

_PIECE: Final = 500
_LONGEST_WAIT_MS: Final = 1000
"""What such a fetch keeps counts against the memory of long requests, for which others wait."""


class Parts(Protocol):
    """What sessions need of the broker."""

    @property
    def clock(self) -> Clock: ...

    @property
    def fetch_sessions(self) -> FetchSessionCache: ...


def is_much(request: messages.fetch_request.FetchRequest) -> bool:
    """Is that more than can be looked at in one go?"""
    topics, forgotten = request.topics, request.forgotten_topics_data
    if len(topics) == 1 and not forgotten:
        return len(topics[0].partitions) > AT_ONCE
    if len(topics) > AT_ONCE or sum([len(topic.partitions) for topic in topics]) > AT_ONCE:
        return True
    return bool(forgotten) and len(forgotten) + sum(len(topic.partitions) for topic in forgotten) > AT_ONCE


def pieces(
    topics: Iterable[messages.fetch_request.FetchTopic],
) -> Iterator[messages.fetch_request.FetchTopic]:
    """The topics, large ones cut."""
    kind = messages.fetch_request.FetchTopic
    for topic in topics:
        for first in range(0, len(topic.partitions), _PIECE):
            some = topic.partitions[first : first + _PIECE]
            yield kind(topic=topic.topic, topic_id=topic.topic_id, partitions=some)


async def session_of_many(
    parts: Parts,
    request: messages.fetch_request.FetchRequest,
    items: list[FetchItem],
    params: FetchParams,
    pace: Pace,
) -> tuple[FetchSession | None, bool]:
    """(session or None, whether this fetch names all its partitions). KafkaError as `FetchSessionCache.resume` and `update` raise it."""
    sessions, now_ms = parts.fetch_sessions, parts.clock.monotonic_ms()
    is_full = request.session_epoch in (FIRST_EPOCH, SESSIONLESS_EPOCH)
    if is_full:
        if request.session_id:
            sessions.close(request.session_id)
        if request.session_epoch == SESSIONLESS_EPOCH:
            return None, True
        session = sessions.open(items[:_PIECE], params.is_follower, params.uses_topic_ids, now_ms, size=len(items))
        if session is None:
            return None, True
        items = items[_PIECE:]
    else:
        session = sessions.resume(request.session_id, request.session_epoch, params.uses_topic_ids)
        session.last_fetch_ms = now_ms
        forgotten = session.meant_by(request.forgotten_topics_data)
        for first in range(0, len(forgotten), _PIECE):
            await pace.unit(_PIECE)
            sessions.forget(session, forgotten[first : first + _PIECE])
    for first in range(0, len(items), _PIECE):
        await pace.unit(_PIECE)
        if session.session_id not in sessions.sessions:  # others needed the room
            if is_full:
                return None, True
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        sessions.update(session, items[first : first + _PIECE])
    return session, is_full


class ManyPartitions:
    """A full fetch that looks at its partitions in portions."""

    def __init__(self, fetch: FullFetch, pace: Pace) -> None:
        self._fetch, self._pace = fetch, pace
        self._reader, self._params = fetch.parts.partition_reader, fetch.params
        self._answers: Answers = {}
        self._is_enough = False

    async def answered(self) -> messages.fetch_response.FetchResponse:
        """The response, after max.wait at the latest."""
        fetch, changed = self._fetch, asyncio.Event()
        fetch.requester.on_ready = lambda partition, appended: changed.set()
        await self._read()
        if not self._is_enough and fetch.may_wait():
            await self._wait(changed)
        fetch.requester.on_ready = None
        if throttle_ms := fetch.throttle_ms(self._answers):
            return fetch.throttled(throttle_ms)
        topics: Topics = {}
        answers = iter(self._answers.items())
        while some := dict(islice(answers, _PIECE)):
            await self._pace.unit(_PIECE)
            fetch.tell(some, topics)
        return fetch.response(topics)

    async def _wait(self, changed: asyncio.Event) -> None:
        """Until a partition changed or max.wait has passed."""
        fetch, watched = self._fetch, list(self._fetch.items.values())
        requester, replicas, reader = fetch.requester, fetch.parts.replicas, self._reader
        if not isinstance(requester, SessionlessWatch):
            watched = []  # a session watches its partitions always
        reader.awaited_partitions += len(watched)
        try:
            for item in watched:
                await self._pace.unit()
                replicas.watch(item.topic_partition, requester)
            if watched:
                await self._read()  # what came in before they were watched
            if not self._is_enough:
                try:
                    async with asyncio.timeout(min(self._params.max_wait_ms, _LONGEST_WAIT_MS) / 1000):
                        await changed.wait()
                except TimeoutError:
                    pass
                await self._read()
        finally:
            reader.awaited_partitions -= len(watched)
            if isinstance(requester, SessionlessWatch):
                fetch.context.portions.run(_unwatched(replicas, watched, requester))

    async def _read(self) -> None:
        total, urgent = 0, self._params.max_wait_ms == 0
        items = iter(self._fetch.items.values())
        while some := list(islice(items, _PIECE)):
            await self._pace.unit(_PIECE)
            answers, total, told_at_once = await self._read_some(some, total)
            self._answers |= answers
            urgent = urgent or told_at_once
        self._is_enough = total > 0 or urgent

    async def _read_some(self, items: list[FetchItem], so_far: int) -> tuple[Answers, int, bool]:
        reader, requester = self._reader, self._fetch.requester
        for _ in range(LOADS_LIMIT):
            try:
                return reader.read_in_memory(items, self._params, requester, so_far)
            except NotInMemory as cold:
                await reader.cold_reads.load(cold)
        return reader.read_all(items, self._params, requester, so_far)


def _unwatched(replicas: Replicas, items: list[FetchItem], requester: SessionlessWatch) -> Work[None]:
    for item in items:
        yield
        replicas.unwatch(item.topic_partition, requester)
