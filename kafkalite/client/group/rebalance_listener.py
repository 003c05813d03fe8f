"""What a program hears of its partitions, and the calls of its methods."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Iterable
from typing import Any

from kafkalite.types import TopicPartition

log = logging.getLogger(__name__)


class RebalanceListener:
    """What the program wants to know about its partitions; override what is needed, with plain methods or coroutines."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """New partitions; their positions are looked up afterwards, unless this seeks."""

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """Partitions are about to be given up; positions can still be committed."""

    def on_partitions_lost(self, lost: set[TopicPartition]) -> Any:
        """Partitions are another member's already; nothing can be committed. By default the same as revoked."""
        return self.on_partitions_revoked(lost)


class ListenerCalls:
    """Calls the methods that `listener` has, one at a time; what they raise is logged. `active` is True while one of them runs."""

    def __init__(self) -> None:
        self.listener: Any = None
        self.active = False

    async def call(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        """Call the method `name` and wait until it has ended; `on_partitions_revoked` in place of a missing `on_partitions_lost`."""
        method = getattr(self.listener, name, None)
        if method is None and name == "on_partitions_lost":
            method = getattr(self.listener, "on_partitions_revoked", None)
        if method is None:
            return
        self.active = True
        try:
            outcome = method(set(partitions))
            if inspect.isawaitable(outcome):
                await outcome
        except (Exception, asyncio.CancelledError) as problem:
            task = asyncio.current_task()
            if isinstance(problem, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # the membership is cancelled, not just something that the listener awaited
            log.exception("%s of the rebalance listener failed", name)
        finally:
            self.active = False
