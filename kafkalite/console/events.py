"""Server-sent events (HTML Living Standard, 9.2): a bounded number of streams, each with keep-alive comments."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final

from starlette.responses import StreamingResponse

from kafkalite.lifecycle import start_task

MOST_STREAMS: Final = 16
_WAITING_EVENTS: Final = 32
"""Events that are made ahead of the client."""

Event = tuple[str, dict[str, Any]]
"""The name of an event, and its data."""


class TooManyStreamsError(Exception):
    """Raised when the limit of streams is reached."""


def encode_event(event: Event) -> bytes:
    """Return the event as bytes. JSON has no line breaks, so it is one line of data."""
    return f"event: {event[0]}\ndata: {json.dumps(event[1], separators=(',', ':'))}\n\n".encode()


class Streams:
    """The open streams, each made by a task of its own: a client that leaves cancels its response at every await, where nothing could be
    closed.
    """

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._most = most
        self._tasks: set[asyncio.Task[None]] = set()

    def respond(self, events: AsyncGenerator[Event]) -> StreamingResponse:
        """Return a response with the events. Raises TooManyStreamsError."""
        if len(self._tasks) >= self._most:
            raise TooManyStreamsError(f"{self._most} searches and followers are open already")
        waiting: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING_EVENTS)
        task = start_task(_make(events, waiting), "events")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return StreamingResponse(_next_event(waiting, task), media_type="text/event-stream")

    async def close(self) -> None:
        """End all of them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _make(events: AsyncGenerator[Event], waiting: asyncio.Queue[bytes | None]) -> None:
    async with aclosing(events) as found:
        async for each in found:
            await waiting.put(encode_event(each))
    await waiting.put(None)


async def _next_event(waiting: asyncio.Queue[bytes | None], task: asyncio.Task[None]) -> AsyncIterator[bytes]:
    getting = asyncio.ensure_future(waiting.get())
    try:
        while True:
            await asyncio.wait([getting, task], return_when=asyncio.FIRST_COMPLETED)
            if not getting.done():  # it failed, which is reported
                return
            if (event := getting.result()) is None:
                return
            yield event
            getting = asyncio.ensure_future(waiting.get())
    finally:
        getting.cancel()
        task.cancel()
