"""A TCP link that a test can cut or slow down: a proxy in front of some servers, made with `kafkalite.local.relay`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kafkalite.local.relay import Lane, Relay


class Link(Relay):
    """One listening port per target `host:port`; `connect` lists them in the order of the targets."""

    def __init__(self, targets: Sequence[str]) -> None:
        super().__init__()
        self.towards, self.back = Lane(), Lane()
        """The bytes of whoever connects, and the answers: to be slowed or lost by their attributes, as by `cut` and `repair`."""
        self._addresses = [self.listen(target) for target in targets]

    @property
    def connect(self) -> str:
        """Return the proxy's addresses in the form of `zookeeper.connect`."""
        return ",".join(self._addresses)

    def cut(self, direction: Literal["both", "towards", "back"] = "both") -> None:
        """Cut one direction: after this call no byte passes."""

        async def cut() -> None:
            for lane in {"both": (self.towards, self.back), "towards": (self.towards,), "back": (self.back,)}[
                direction
            ]:
                lane.cut()

        self._call(cut())

    def repair(self) -> None:
        """Let everything pass as it comes."""

        async def repair() -> None:
            self.towards.repair()
            self.back.repair()

        self._call(repair())

    def _lanes(self, target: str, client_port: int, proxy_port: int) -> tuple[Lane, Lane]:
        return self.towards, self.back
