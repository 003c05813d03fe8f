"""The bridge from kazoo's connection thread to the event loop, which keeps the order of the wire.

kazoo's usual handler has two worker threads, one for answers and one for watch events, so a watch event could overtake the answer
to the read that armed it. `LoopHandler` has none; answers, watch events and changes of state go through one `Mailbox`.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import Any

from zk.kazoo_adapter.kazoo_tls import TlsHandler
from zk.mailbox import Mailbox

logger = logging.getLogger(__name__)

_FIRST_PATIENCE_S = 0.25
"""Doubled before each attempt to open the first session."""

_SELECT_ARGUMENTS = 4
"""Of `select`: sockets to read, to write, with errors, and the timeout."""


class Answer:
    """kazoo's async result with a callback on the loop, and without a condition to wait on.

    It is posted when it is set, also before the callback is: kazoo's thread may have the answer, and a watch event behind it, before the
    loop's thread returns from sending the request.
    """

    __slots__ = ("_callback", "_delivered", "_mailbox", "_ready", "exception", "value")

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._ready = self._delivered = False
        self._callback: Callable[[Answer], object] | None = None
        self.value: Any = None
        self.exception: BaseException | None = None

    def ready(self) -> bool:
        return self._ready

    def successful(self) -> bool:
        return self._ready and self.exception is None

    def set(self, value: Any = None) -> None:
        self._settle(value, None)

    def set_exception(self, exception: BaseException) -> None:
        self._settle(None, exception)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the value, or its exception raised; never waits."""
        if not self._ready:
            raise TimeoutError("no answer yet")
        if self.exception is not None:
            raise self.exception
        return self.value

    def rawlink(self, callback: Callable[[Answer], object]) -> None:
        """Set the callback, on the loop."""
        self._callback = callback
        if self._delivered:
            self._mailbox.post(callback, self)

    def _settle(self, value: Any, exception: BaseException | None) -> None:
        if self._ready:
            return
        self.value, self.exception, self._ready = value, exception, True
        if self._callback is not None and self._mailbox.is_delivering():
            self._deliver()  # kazoo makes it of another answer, whose place it takes
        else:
            self._mailbox.post(self._deliver)

    def _deliver(self) -> None:
        self._delivered = True
        if self._callback is not None:
            self._callback(self)


class LoopHandler(TlsHandler):
    """kazoo's handler without worker threads; `connect_timeout_s` bounds the attempt to reach one server.

    A server that is just starting may take a connection and never answer on it (ZooKeeper 3.9, before its database is
    there), so the answer to a first session's request is awaited for half a second, then twice as long with each attempt.
    `context` makes the TLS context of a connection, see `StoreSecurity`.
    """

    name = "loop_handler"

    def __init__(
        self, mailbox: Mailbox, connect_timeout_s: float, context: Callable[[], ssl.SSLContext] | None = None
    ) -> None:
        super().__init__(context)
        self._mailbox = mailbox
        self._connect_timeout_s = connect_timeout_s
        self._patience_s: float | None = _FIRST_PATIENCE_S

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def async_result(self) -> Answer:
        return Answer(self._mailbox)

    def dispatch_callback(self, callback: Any) -> None:
        self._mailbox.post(callback.func, *callback.args)

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["timeout"] = min(kwargs.get("timeout", self._connect_timeout_s), self._connect_timeout_s)
        connection = super().create_connection(*args, **kwargs)
        if self._patience_s is not None:
            self._patience_s *= 2
        return connection

    def select(self, *args: Any, **kwargs: Any) -> Any:
        if self._patience_s is not None and len(args) == _SELECT_ARGUMENTS:
            *sockets, timeout_s = args
            args = (*sockets, min(timeout_s, self._patience_s))
        return super().select(*args, **kwargs)

    def session_opened(self) -> None:
        """Use kazoo's own timeouts from now on."""
        self._patience_s = None

    def spawn(self, func: Callable[..., object], *args: Any, **kwargs: Any) -> Any:
        """Start a daemon thread, so a hanging server cannot keep the process from ending."""
        return super().spawn(_run_thread, func, args, kwargs)


def _run_thread(func: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        func(*args, **kwargs)
    except InterruptedError:
        logger.debug("kazoo was stopped between two attempts to connect")
    except Exception:
        # Its end is reported as a change of state, upon which the store starts it again.
        logger.exception("kazoo's connection thread died")
