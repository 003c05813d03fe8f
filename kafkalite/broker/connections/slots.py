"""The places of a connection's requests in the order of its answers."""

from __future__ import annotations

import asyncio

from kafkalite.types import Buffer


class Slot:
    """Of one request. It is `done` when its answer may leave, behind those before it; `frame` is None where there is no answer."""

    __slots__ = ("delayed_fetch", "done", "frame", "request_bytes")

    def __init__(self) -> None:
        self.done = False
        self.frame: list[Buffer] | None = None
        self.request_bytes = 0
        self.delayed_fetch: asyncio.Future[list[Buffer] | None] | None = None
