"""Full fetches of more than 2000 partitions, read in portions between which the event loop serves other requests.

Consumers and followers fetch by sessions, so that only partitions that changed are read. What remains are fetches that open a session, and
those of clients without one. Such a fetch is answered as soon as there is anything, whatever min.bytes says: to count what each of its
partitions gains would cost more than to answer. It waits for a second at most, whatever max.wait says: what it keeps counts against the
memory of long requests, for which others wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final

from kafkalite.broker.fetch.fetch_contexts import FullFetch, SessionlessWatch
from kafkalite.portions import Pace, Work
from kafkalite.storage.open_files import NotInMemory

if TYPE_CHECKING:
    from kafkalite.broker.fetch.fetch_contexts import Reply, Response, Topics
    from kafkalite.broker.fetch.fetch_sessions import Answers, FetchItem
    from kafkalite.broker.fetch.partition_reader import ReadAnswers
    from kafkalite.broker.replication.replicas import Replicas

_PIECE: Final = 500
_LONGEST_WAIT_MS: Final = 1000


class PacedFullFetch(FullFetch):
    """A full fetch that reads its partitions in portions."""

    def start(self) -> Reply:
        return asyncio.ensure_future(self._respond_in_portions())

    async def _respond_in_portions(self) -> Response:
        """Return the response, after max.wait at the latest."""
        changed, pace = asyncio.Event(), self.context.portions.pace()
        self.requester.on_ready = lambda partition, appended: changed.set()
        answers, is_enough = await self._read_in_portions(self.items.values(), pace)
        if not is_enough and self.may_wait():
            answers = await self._wait(answers, changed, pace)
        self.requester.on_ready = None
        if throttle_ms := self.throttle_ms(answers):
            return self.throttle(throttle_ms)
        topics: Topics = {}
        unsent = iter(answers.items())
        while some := dict(islice(unsent, _PIECE)):
            await pace.unit(_PIECE)
            self.add_answers(some, topics)
        return self.make_response(topics)

    async def _wait(self, answers: Answers, changed: asyncio.Event, pace: Pace) -> Answers:
        """Wait until a partition has changed or max.wait has passed; return the answers of then.

        Of a session only what has changed is read again.
        """
        requester, replicas, reader = self.requester, self.parts.replicas, self.parts.partition_reader
        # A session watches its partitions always.
        watched = list(self.items.values()) if isinstance(requester, SessionlessWatch) else []
        is_enough = False
        reader.awaited_partitions += len(watched)
        try:
            for item in watched:
                await pace.unit()
                replicas.watch(item.topic_partition, requester)
            if watched:  # records may have come in before they were watched
                answers, is_enough = await self._read_in_portions(watched, pace)
            if not is_enough:
                try:
                    async with asyncio.timeout(min(self.params.max_wait_ms, _LONGEST_WAIT_MS) / 1000):
                        await changed.wait()
                except TimeoutError:
                    pass
                again = watched or [item for item in self.items.values() if not item.is_drained]
                answers |= (await self._read_in_portions(again, pace))[0]
        finally:
            reader.awaited_partitions -= len(watched)
            if isinstance(requester, SessionlessWatch):
                self.context.portions.run(_unwatch(replicas, watched, requester))
        return answers

    async def _read_in_portions(self, wanted: Iterable[FetchItem], pace: Pace) -> tuple[Answers, bool]:
        """Return the answers of partitions, and True if there is a reason to send them."""
        answers: Answers = {}
        total, is_urgent = 0, self.params.max_wait_ms == 0
        items = iter(wanted)
        while some := list(islice(items, _PIECE)):
            await pace.unit(_PIECE)
            more, total, is_more_urgent = await self._read_some(some, total)
            answers |= more
            is_urgent = is_urgent or is_more_urgent
        return answers, total > 0 or is_urgent

    async def _read_some(self, items: list[FetchItem], so_far: int) -> ReadAnswers:
        reader = self.parts.partition_reader
        try:
            return reader.read_in_memory(items, self.params, self.requester, so_far)
        except NotInMemory as cold:
            return await reader.load_and_read(cold, self.params, lambda: (items, self.requester), so_far)


def _unwatch(replicas: Replicas, items: list[FetchItem], requester: SessionlessWatch) -> Work[None]:
    for item in items:
        yield
        replicas.unwatch(item.topic_partition, requester)
