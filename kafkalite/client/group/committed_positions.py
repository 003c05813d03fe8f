"""Positions of a consumer's partitions from the committed offsets of its group."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from kafkalite.client.consumer.fetch_buffer import FetchBuffer, PartitionState
from kafkalite.client.errors import ClientClosedError, ClientError
from kafkalite.client.group.offsets import GroupOffsets
from kafkalite.lifecycle import end_tasks

log = logging.getLogger(__name__)


class CommittedPositions:
    """Gives partitions that wait for it (`awaits_committed`) the position that the group has committed. `on_change` is called when
    some have theirs, or an error."""

    def __init__(
        self, offsets: GroupOffsets, buffer: FetchBuffer, timeout_s: float, on_change: Callable[[], None]
    ) -> None:
        self._offsets = offsets
        self._buffer = buffer
        self._timeout_s = timeout_s
        self._on_change = on_change
        self._task: asyncio.Task[None] | None = None

    def start_lookup(self) -> None:
        """Look up committed offsets for the partitions that wait for theirs; needs the running loop."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look_up())

    async def close(self) -> None:
        if self._task is not None:
            await end_tasks([self._task])

    async def _look_up(self) -> None:
        while waiting := {each: state for each, state in self._buffer.states.items() if state.awaits_committed}:
            try:
                found = await self._offsets.fetch(waiting, self._timeout_s)
            except ClientClosedError:
                return
            except ClientError as problem:
                if problem.retriable:
                    log.warning("%s", problem)
                    continue
                self._fail(waiting.values(), problem)
                continue
            except Exception as problem:
                log.exception("committed offsets cannot be read")
                self._fail(waiting.values(), problem)
                continue
            for each, state in waiting.items():
                if self._buffer.states.get(each) is state and state.awaits_committed:
                    committed = found[each]
                    state.awaits_committed = False
                    if committed is not None and state.position is None and state.reset_to is None:
                        self._buffer.seek(each, committed.offset, committed.leader_epoch)
            self._on_change()

    def _fail(self, waiting: Iterable[PartitionState], problem: Exception) -> None:
        """Fail those that still wait: a partition that was sought meanwhile has its position."""
        for state in waiting:
            if state.awaits_committed:
                state.awaits_committed, state.error = False, problem
        self._on_change()
