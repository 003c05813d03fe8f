"""The synchronous face of the client: the asyncio core on a loop thread, same options, same results, same errors."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from kafkalite.client.blocking.loop_thread import LoopThread
from kafkalite.client.errors import ClientClosedError


class SyncFace:
    """What the faces share: a core on the loop thread, connect, close, context manager."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self._thread: LoopThread | None = LoopThread.acquire()

    def _running(self) -> LoopThread:
        if self._thread is None:
            raise ClientClosedError(f"the {type(self._core).__name__.lower()}")
        return self._thread

    def connect(self, timeout: float = 10.0) -> None:
        """Reach the cluster within `timeout` seconds. NoBrokersAvailableError names, per bootstrap server, what went wrong."""
        self._running().call(self._core.connect(timeout))

    def _end(self, closing: Any) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            closing.close()
            return
        try:
            thread.call(closing)
        finally:
            thread.release()

    def close(self) -> None:
        """Let go of all connections. Closing twice does nothing."""
        self._end(self._core.close())

    def __enter__(self) -> Self:
        try:
            self.connect()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
