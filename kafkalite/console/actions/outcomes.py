"""The outcomes of changes by the id that the page gives each, so that a change whose answer was lost is not made twice.

Browsers break requests off when the network of the machine changes, as it does with each container that starts. Whether the change was made
is then unknown to the page, which sends the same request again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from kafkalite.lifecycle import end_tasks

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

CHANGE_ID: Final = "x-kafkalite-change"
"""The header with the id of a change, at most 64 characters."""
OUTCOMES_KEPT: Final = 100
_LONGEST_ID: Final = 64

Endpoint = Callable[["Request"], Coroutine[Any, Any, "Response"]]


class Outcomes:
    """The newest changes with ids. A change goes on when its request is broken off."""

    def __init__(self, most: int = OUTCOMES_KEPT) -> None:
        self._most = most
        self._changes: dict[tuple[str, str, bytes], asyncio.Task[Response]] = {}

    def once(self, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint that answers the same request with the same id as the first time."""

        async def answer_once(request: Request) -> Response:
            change_id = request.headers.get(CHANGE_ID, "")
            if not 1 <= len(change_id) <= _LONGEST_ID:
                return await endpoint(request)
            digest = hashlib.sha256(await request.body()).digest()  # only what has come whole is begun
            key = request.url.path, change_id, digest
            change = self._changes.get(key)
            if change is None:
                if not self._make_room():
                    return await endpoint(request)
                change = self._changes[key] = asyncio.create_task(endpoint(request), name=f"change {change_id}")
            return await asyncio.shield(change)

        return answer_once

    def _make_room(self) -> bool:
        """Forget the oldest outcome if there are too many; False if all changes are still being made."""
        if len(self._changes) < self._most:
            return True
        oldest = next((key for key, change in self._changes.items() if change.done()), None)
        if oldest is not None:
            del self._changes[oldest]
        return oldest is not None

    async def close(self) -> None:
        """End the changes that are still being made."""
        await end_tasks(self._changes.values())
