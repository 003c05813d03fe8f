"""Server-sent events for the page: first the whole status, then its changes, the same messages for all clients.

    event: status     the document of `status`
    event: change     a change of it

Changes of the cluster are sent as soon as the metadata has them, at most every 0.1 s; groups and traffic every second. Nothing is computed
while nobody looks. Who does not take messages as fast as they come is let go; a browser then connects again by itself, and begins with
the whole status.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafkalite.broker.observation.groups import ClusterGroups
from kafkalite.broker.observation.status import (
    VERSION,
    Partitions,
    broker_facts,
    cluster_changes,
    cluster_facts,
    group_facts,
)

if TYPE_CHECKING:
    from kafkalite.broker.observation.observed import Observed

logger = logging.getLogger("kafkalite.broker.observation")

_PAUSE_S: Final = 0.1
_SLOW_EVERY_S: Final = 1.0
_HEARTBEAT_S: Final = 15.0
_WAITING_MESSAGES: Final = 100
HEARTBEAT: Final = b": still here\n\n"


Stream: TypeAlias = "asyncio.Queue[bytes | None]"
"""Messages for one client; None ends them."""


def message(event: str, data: dict[str, Any]) -> bytes:
    """Return one server-sent event. JSON has no line breaks, so it is one line of data."""
    return f"event: {event}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


class TooManyStreams(Exception):
    """Raised when `kafkalite.http.max.event.streams` clients are subscribed already."""


class LiveStatus:
    """Publishes the status to subscribed clients. `groups()` is None until the broker serves."""

    def __init__(self, broker: Observed, groups: Callable[[], ClusterGroups | None]) -> None:
        self._broker, self._groups = broker, groups
        self._streams: set[Stream] = set()
        self._following: asyncio.Task[None] | None = None
        self._known: dict[str, Any] = {}
        """The values that were sent last, without topics."""
        self._partitions: Partitions = {}
        self._metadata_version = -1

    # Who looks

    def subscribe(self) -> AsyncGenerator[bytes]:
        """Return the messages for one client. Raises TooManyStreams."""
        if len(self._streams) >= self._broker.config.kafkalite_http_max_event_streams:
            raise TooManyStreams
        return self._messages()

    async def _messages(self) -> AsyncGenerator[bytes]:
        queue: Stream = asyncio.Queue(_WAITING_MESSAGES)
        self._streams.add(queue)
        try:
            # What is broadcast from now on waits in the queue. It may be older than what is sent first, but then the next one is newer.
            yield message("status", await self.full_status())
            if self._following is None:
                self._following = self._broker.jobs.spawn(self._follow(), "live status")
            while True:
                try:
                    async with asyncio.timeout(_HEARTBEAT_S):
                        told = await queue.get()
                except TimeoutError:
                    told = HEARTBEAT
                if told is None:
                    return
                yield told
        finally:
            self._streams.discard(queue)

    async def full_status(self, *, settled: bool = False) -> dict[str, Any]:
        """Return the document of `status`; if `settled`, with fresh answers of other brokers, else with their last ones."""
        broker = self._broker
        document = {"version": VERSION, "time_ms": broker.clock.now_ms(), **broker_facts(broker)}
        groups = self._groups()
        if groups is not None:
            version = broker.metadata.version
            await groups.refresh(everywhere=True)
            if settled:
                await groups.wait_for_answers()
            facts, partitions = await cluster_facts(broker.metadata)
            document |= {**facts, **group_facts(groups.everywhere)}
            if self._following is None:
                self._metadata_version, self._partitions = version, partitions
        return document

    # What changes

    async def _follow(self) -> None:
        try:
            loop = asyncio.get_running_loop()
            slow_due_s = loop.time()
            while self._streams:
                await self._broker.metadata.wait_until(self._is_outdated, slow_due_s - loop.time())
                changes = await self._quick_changes()
                if loop.time() >= slow_due_s:
                    slow_due_s = loop.time() + _SLOW_EVERY_S
                    changes |= await self._slow_changes()
                if changes:
                    self._broadcast(message("change", {"time_ms": self._broker.clock.now_ms(), **changes}))
                await asyncio.sleep(_PAUSE_S)
        finally:
            self._following = None
            for queue in tuple(self._streams):  # there are some after an error: they begin again
                self._end_streams(queue)
            self._known.clear()
            self._partitions = {}
            if (groups := self._groups()) is not None:
                groups.disconnect()

    def _is_outdated(self) -> bool:
        return self._broker.metadata.version != self._metadata_version

    async def _quick_changes(self) -> dict[str, Any]:
        facts = broker_facts(self._broker)
        facts.pop("traffic", None)
        topics = None
        if self._is_outdated():
            self._metadata_version = self._broker.metadata.version
            cluster, self._partitions = await cluster_changes(self._broker.metadata, self._partitions)
            topics = cluster.pop("topics")
            facts |= cluster
        return {**self._select_changed(facts), **({"topics": topics} if topics else {})}

    async def _slow_changes(self) -> dict[str, Any]:
        groups = self._groups()
        if groups is None:
            return {}
        await groups.refresh(everywhere=True)
        return self._select_changed(
            {"traffic": broker_facts(self._broker)["traffic"], **group_facts(groups.everywhere)}
        )

    def _select_changed(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return the keys whose values have changed since they were sent."""
        news = {key: value for key, value in facts.items() if self._known.get(key) != value}
        self._known |= news
        return news

    def _broadcast(self, told: bytes) -> None:
        for queue in tuple(self._streams):
            if queue.full():
                logger.info("a client of the live status is too slow; it has to begin again")
                self._end_streams(queue)
            else:
                queue.put_nowait(told)

    def _end_streams(self, queue: Stream) -> None:
        self._streams.discard(queue)
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)
