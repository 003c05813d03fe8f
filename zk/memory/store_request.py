"""A request of a store in memory, between the moment it was made and its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, eq=False)
class StoreRequest:
    """A request until its answer has arrived; `carry_out` runs on the server."""

    path: str
    carry_out: Callable[[], Any]
    answer: asyncio.Future[Any]
    served: bool = False
    _result: Any = None
    _error: Exception | None = None

    def run(self) -> None:
        """Carry out the request and keep its result or error."""
        self.served = True
        try:
            self._result, self._error = self.carry_out(), None
        except Exception as refusal:
            self._result, self._error = None, refusal

    def complete(self) -> None:
        """Set the answer to the kept result or error."""
        if self.answer.done():
            return
        if self._error is None:
            self.answer.set_result(self._result)
        else:
            self.answer.set_exception(self._error)
