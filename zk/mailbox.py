"""Calls from other threads to the event loop, in their order."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from zk.listeners import report

logger = logging.getLogger(__name__)


class Mailbox:
    """Calls posted from any thread, made on the loop in their order, many in one wake-up."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._wake_up_pending = False
        self._thread = threading.get_ident()
        self._is_delivering = False

    def is_delivering(self) -> bool:
        """True while a posted call runs, if called from the loop's thread."""
        return self._is_delivering and threading.get_ident() == self._thread

    def post(self, call: Callable[..., object], *arguments: Any) -> None:
        """Post a call, from any thread; calls to a closed loop are dropped."""
        self._calls.append((call, arguments))
        if self._wake_up_pending:
            return
        self._wake_up_pending = True
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            logger.debug("the event loop is closed; %s is dropped", call)

    def _deliver(self) -> None:
        # Reset before emptying: a call posted meanwhile is either seen below or wakes the loop again.
        self._wake_up_pending = False
        self._is_delivering = True
        while self._calls:
            call, arguments = self._calls.popleft()
            try:
                call(*arguments)
            except Exception as problem:
                report(f"{call} failed", problem)
        self._is_delivering = False
