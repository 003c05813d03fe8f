"""A blocking client: an asyncio client on a loop thread, with its options, its results and its errors."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from kafkalite.client.blocking.loop_thread import LoopThread
from kafkalite.client.errors import ClientClosedError


class AsyncClient(Protocol):
    """What the clients that have a blocking twin share."""

    def connect(self, timeout: float = ...) -> Coroutine[Any, Any, None]:
        """Reach the cluster."""

    def close(self) -> Coroutine[Any, Any, None]:
        """Let go of it."""


Core = TypeVar("Core", bound=AsyncClient)


class BlockingClient(Generic[Core]):
    """What blocking clients share: the asyncio client `_core` on the loop thread, connect, close, context manager.

    A subclass names its asyncio `twin`; its methods have the twin's signatures (a test compares them), and the twin's docstrings
    unless they have their own. A program may subclass these clients without naming one.
    """

    def __init_subclass__(cls, twin: type[Core] | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        for name, method in vars(cls).items() if twin is not None else ():
            if inspect.isfunction(method) and not name.startswith("_") and method.__doc__ is None:
                method.__doc__ = getattr(twin, name).__doc__

    def __init__(self, core: Core) -> None:
        self._core = core
        self._thread: LoopThread | None = LoopThread.acquire()

    def _running(self) -> LoopThread:
        if self._thread is None:
            raise ClientClosedError(f"the {type(self._core).__name__.lower()}")
        return self._thread

    def connect(self, timeout: float = 10.0) -> None:
        """Reach the cluster within `timeout` seconds. NoBrokersAvailableError names, per bootstrap server, what went wrong."""
        self._running().call(self._core.connect(timeout))

    def _end(self, closing: Coroutine[Any, Any, None]) -> None:
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
