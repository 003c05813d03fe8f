"""Groups of old consumers, which keep their offsets in ZooKeeper, with their lag. Only the controller exposes them, so that each is
exposed once.

ZooKeeper is read while somebody looks at metrics or the page, at most every ASK_AGAIN_S, for at most `kafkalite.metrics.max.groups`
groups; the result is used at the next refresh.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.observation.groups import GroupView, add_lags
from kafkalite.broker.parts import HasBrokerId, HasConfig, HasJobs, HasMetadata, HasStore
from kafkalite.types import TopicPartition
from zk import consumer_groups, paths
from zk.store import NoNodeError, StoreError
from zk.znodes import MalformedZnodeError

if TYPE_CHECKING:
    pass

logger = logging.getLogger("kafkalite.broker.observation")

ASK_AGAIN_S: Final = 10.0


class Parts(HasBrokerId, HasConfig, HasJobs, HasMetadata, HasStore, Protocol):
    """The parts that tell the controller and read groups."""


class ZooKeeperGroups:
    """The groups of old consumers. `end_of` returns high watermarks, or requests unknown ones for the next refresh."""

    def __init__(self, parts: Parts, end_of: Callable[[TopicPartition], int | None]) -> None:
        self._parts, self._end_of = parts, end_of
        self.views: Sequence[GroupView] = ()
        """The groups as of the last read; none on brokers that are not the controller."""
        self.omitted = 0
        """Groups that were not read, for there are more than `kafkalite.metrics.max.groups`."""
        self._read_s = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    def refresh(self) -> None:
        """Start reading ZooKeeper when it is due."""
        if self._parts.metadata.controller_id != self._parts.broker_id:
            self.views, self.omitted, self._read_s = (), 0, float("-inf")
            return
        now_s = asyncio.get_running_loop().time()
        if self._reading is None and now_s - self._read_s >= ASK_AGAIN_S:
            self._read_s = now_s
            self._reading = self._parts.jobs.spawn(self._read_groups(), "groups in ZooKeeper")
            self._reading.add_done_callback(self._finish_read)

    async def wait_for_answers(self) -> None:
        """Wait until the read in progress has ended."""
        if self._reading is not None:
            await asyncio.wait([self._reading])

    def _finish_read(self, _: asyncio.Task[None]) -> None:
        self._reading = None

    async def _read_groups(self) -> None:
        try:
            names = sorted(await consumer_groups.group_ids(self._parts.store))
            told = names[: self._parts.config.kafkalite_metrics_max_groups]
            views = [view for name in told if (view := await self._view(name)) is not None]
        except StoreError as problem:
            logger.debug("groups in ZooKeeper are not known: %s", problem)
            return
        self.views, self.omitted = views, len(names) - len(told)

    async def _view(self, group_id: str) -> GroupView | None:
        """Return the group, None for one without offsets or with invalid ones."""
        try:
            offsets = await consumer_groups.read_offsets(self._parts.store, group_id)
        except MalformedZnodeError as problem:
            logger.debug("the offsets of group %s in ZooKeeper: %s", group_id, problem)
            return None
        if not offsets:
            return None
        view = GroupView(group_id, "ZooKeeper", self._parts.broker_id, await self._members(group_id))
        committed = [(TopicPartition(*place), offset) for place, offset in offsets.items()]
        add_lags(view.topics, committed, self._end_of)
        return view

    async def _members(self, group_id: str) -> int:
        try:
            return len(await self._parts.store.children(paths.consumer_ids(group_id)))
        except NoNodeError:
            return 0
