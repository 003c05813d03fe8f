"""A blocking client: an asyncio client on a loop thread, with its options, its results and its errors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from kafkalite.client.blocking.loop_thread import LoopThread
from kafkalite.client.errors import ClientClosedError


class AsyncClient(Protocol):
    """An asyncio client that has a blocking twin."""

    def connect(self, timeout: float = ...) -> Coroutine[Any, Any, None]:
        """Connect to the cluster within `timeout` seconds."""

    def close(self) -> Coroutine[Any, Any, None]:
        """Close all connections."""


Core = TypeVar("Core", bound=AsyncClient)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def blocking(
    method: Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[BlockingClient[Any], Parameters], Result]:
    """Return the blocking form of a twin's coroutine method: same signature, docstring, result and errors."""
    name = method.__name__

    @functools.wraps(method)
    def call(client: BlockingClient[Any], /, *arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        thread = client._running()
        coroutine: Coroutine[Any, Any, Result] = getattr(client._core, name)(*arguments, **named)
        return thread.call(coroutine)

    return call


def on_loop(
    method: Callable[Concatenate[Any, Parameters], Result],
) -> Callable[Concatenate[BlockingClient[Any], Parameters], Result]:
    """Return the blocking form of a twin's plain method that changes the client: it runs on the loop's thread."""

    @functools.wraps(method)
    def call(client: BlockingClient[Any], /, *arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        return client._running().call_function(functools.partial(method, client._core, *arguments, **named))

    return call


def direct(
    method: Callable[Concatenate[Any, Parameters], Result],
) -> Callable[Concatenate[BlockingClient[Any], Parameters], Result]:
    """Return the form of a twin's plain method that only reads: it runs on the caller's thread, also after `close`."""

    @functools.wraps(method)
    def call(client: BlockingClient[Any], /, *arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        return method(client._core, *arguments, **named)

    return call


class BlockingClient(Generic[Core]):
    """A client whose asyncio twin, `_core`, runs on the process's loop thread until `close`.

    Callbacks run on that thread: there a method that waits for brokers raises RuntimeError, since it would wait for itself.

    A subclass names the class of its `twin`; its methods have the twin's signatures (a test compares them), and the twin's docstrings
    unless they have their own. A program's own subclass need not name one.
    """

    def __init_subclass__(cls, twin: type[Core] | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        for name, member in vars(cls).items() if twin is not None else ():
            method = getattr(member, "__func__", member)
            if inspect.isfunction(method) and not name.startswith("_") and method.__doc__ is None:
                member.__doc__ = method.__doc__ = getattr(twin, name).__doc__

    def __init__(self, core: Core) -> None:
        self._core = core
        self._thread: LoopThread | None = LoopThread.acquire()
        self._closing = False

    def _running(self) -> LoopThread:
        if self._thread is None:
            raise ClientClosedError(f"the {type(self._core).__name__.lower()}")
        return self._thread

    def connect(self, timeout: float = 10.0) -> None:
        """Connect to the cluster within `timeout` seconds. NoBrokersAvailableError names the problem of each bootstrap server."""
        self._running().call(self._core.connect(timeout))

    def _close_with(self, closing: Coroutine[Any, Any, None]) -> None:
        thread = self._thread
        if thread is None or self._closing:
            closing.close()
            return
        thread.check_caller(closing)
        self._closing = True
        try:
            thread.call(closing)  # which may call listeners, and these the client
        finally:
            self._thread = None
            thread.release()

    def close(self) -> None:
        """Close all connections. Closing twice does nothing."""
        self._close_with(self._core.close())

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
