"""A TCP link that a test can cut: a proxy in front of some servers; see `kafkalite.local.relay`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kafkalite.local.relay import Relay


class Link(Relay):
    """One listening port per target `host:port`; `connect` lists them in the order of the targets."""

    def __init__(self, targets: Sequence[str]) -> None:
        super().__init__()
        self._open = asyncio.Event()
        self._open.set()
        self._addresses = [self.listen(target) for target in targets]

    @property
    def connect(self) -> str:
        """The proxy's addresses, in the form of `zookeeper.connect`."""
        return ",".join(self._addresses)

    def cut(self) -> None:
        """From the return of this call on nothing passes."""
        self._call(self._set(False))

    def mend(self) -> None:
        self._call(self._set(True))

    async def _set(self, is_open: bool) -> None:
        if is_open:
            self._open.set()
        else:
            self._open.clear()

    def _gate(self, target: str, client_port: int) -> asyncio.Event:
        return self._open
