"""Automatic commits of a consumer (`enable_auto_commit`): while the program polls, and before partitions are given up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from kafkalite.client.errors import ClientError
from kafkalite.client.group.offsets import GroupOffsets
from kafkalite.client.records import OffsetAndMetadata
from kafkalite.lifecycle import end_tasks
from kafkalite.types import TopicPartition

log = logging.getLogger(__name__)


class AutoCommit:
    """Commits what `consumed` gives every `interval_s`, as long as `may_commit()`; with None for the interval it does nothing.

    One commit at a time is under way. A failure is logged.
    """

    def __init__(
        self,
        offsets: GroupOffsets,
        interval_s: float | None,
        timeout_s: float,
        *,
        consumed: Callable[[], Mapping[TopicPartition, OffsetAndMetadata]],
        may_commit: Callable[[], bool],
    ) -> None:
        self._offsets = offsets
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._consumed = consumed
        self._may_commit = may_commit
        self._next_s = 0.0
        self._committing: asyncio.Task[bool] | None = None

    def commit_if_due(self) -> None:
        """Start a commit when the interval is over."""
        if self._interval_s is None or (self._committing is not None and not self._committing.done()):
            return
        now_s = asyncio.get_running_loop().time()
        if not self._next_s:
            self._next_s = now_s + self._interval_s
        if now_s < self._next_s or not self._may_commit():
            return
        offsets = self._consumed()
        if offsets:
            self._next_s = now_s + self._interval_s
            self._committing = asyncio.get_running_loop().create_task(self._commit(offsets, self._timeout_s))

    def is_due(self, now_s: float) -> bool:
        """True if `commit_if_due` has something to do."""
        return self._interval_s is not None and now_s >= self._next_s

    async def commit_now(
        self, timeout_s: float, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None
    ) -> bool:
        """Commit before partitions are given up, in place of the commit that is under way: `offsets`, or what `consumed` gives.

        False if that failed.
        """
        if self._interval_s is None:
            return True
        await self.cancel()
        return not self._may_commit() or await self._commit(self._consumed() if offsets is None else offsets, timeout_s)

    async def cancel(self) -> None:
        """End the commit that is under way."""
        if self._committing is not None:
            await end_tasks([self._committing])

    async def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_s: float) -> bool:
        try:
            await self._offsets.commit(offsets, timeout_s, without_deleted=True)
        except ClientError as problem:
            log.warning("automatic commit: %s", problem)
            return False
        return True
