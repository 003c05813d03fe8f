"""Follows a cluster in ZooKeeper for `kafkalite cluster watch`, with standing watches on brokers, controller, topics and partition
states.

ZooKeeper and not a broker is asked: it knows first, and it knows also when brokers are cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from kafkalite.administration.cluster_changes import Change, ClusterChanges
from kafkalite.types import NO_BROKER, TopicPartition
from zk import paths
from zk.session import Session
from zk.watches import ChildrenChanged, ChildWatch, DataChanged, DataWatch
from zk.znodes.controller import ControllerSeat
from zk.znodes.topics import PartitionState


class ClusterWatch:
    """Calls `on_change` with each change, on the event loop, once it is started. `topics` limits it to some topics."""

    def __init__(self, session: Session, on_change: Callable[[Change], object], topics: Iterable[str] = ()) -> None:
        self._session = session
        self._on_change = on_change
        self._only = frozenset(topics)
        self._topics: dict[str, ChildWatch] = {}
        self._partitions: dict[TopicPartition, DataWatch] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.changes = ClusterChanges()

    async def start(self) -> None:
        """Start the watches, and return when the present state is known. Raises the store's errors without a session."""
        await ChildWatch(self._session, paths.BROKER_IDS, self._brokers_changed).start()
        await DataWatch(self._session, paths.CONTROLLER, self._controller_changed).start()
        await ChildWatch(self._session, paths.TOPICS, self._topics_changed).start()
        while self._tasks:
            await asyncio.gather(*self._tasks)
        self.changes.all_known()

    def _tell(self, changes: Iterable[Change]) -> None:
        for change in changes:
            self._on_change(change)

    def _brokers_changed(self, change: ChildrenChanged) -> None:
        self._tell(self.changes.brokers_are(map(int, change.names)))

    def _controller_changed(self, change: DataChanged) -> None:
        self._tell(
            self.changes.controller_is(
                NO_BROKER if change.data is None else ControllerSeat.decode(change.data).broker_id
            )
        )

    def _topics_changed(self, change: ChildrenChanged) -> None:
        for topic in change.removed:
            self._spawn(self._forget_topic(topic))
        for topic in change.added:
            if not self._only or topic in self._only:
                self._topics[topic] = ChildWatch(
                    self._session, paths.partitions(topic), partial(self._topic_changed, topic)
                )
                self._spawn(self._topics[topic].start())

    def _topic_changed(self, topic: str, change: ChildrenChanged) -> None:
        for name in change.added:
            each = TopicPartition(topic, int(name))
            if each not in self._partitions:
                self._partitions[each] = DataWatch(
                    self._session,
                    paths.partition_state(*each),
                    partial(self._state_changed, each),
                )
                self._spawn(self._partitions[each].start())

    def _state_changed(self, each: TopicPartition, change: DataChanged) -> None:
        state = None if change.data is None else PartitionState.decode(change.data)
        self._tell(self.changes.state_is(each, state))

    async def _forget_topic(self, topic: str) -> None:
        watch = self._topics.pop(topic, None)
        if watch is not None:
            await watch.stop()
        for each in [each for each in self._partitions if each.topic == topic]:
            await self._partitions.pop(each).stop()
            self._tell(self.changes.state_is(each, None))

    def _spawn(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
