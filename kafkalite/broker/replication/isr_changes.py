"""Have ISR changes written: by the controller (AlterPartition, KIP-497), or by this broker itself where the cluster is older than 2.7-IV2.

`AlterPartitionSender` has one request in flight, with the changes that wait; `ZooKeeperIsrWriter` writes the partition's state znode
conditionally and tells the controller through /isr_change_notification. Both hand the outcome to the partition on the event loop.

The outcome of a change is that it was written, that it was refused, or that the partition's state is another one by now. As long as it
is unknown, because a response or a session was lost, the change stays pending, with the maximal ISR in force, and is asked for again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final

from kafkalite.backoff import Backoff
from kafkalite.broker.controller_channel import ControllerChannel
from kafkalite.broker.replication.effects import IsrChange
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.replication.state_change_trace import StateChangeTrace
from kafkalite.errors import ErrorCode
from kafkalite.failpoints import reach
from kafkalite.lifecycle import Jobs
from kafkalite.protocol import messages
from kafkalite.types import NO_TOPIC_ID, BrokerId, TopicPartition
from zk import paths
from zk.store import BadVersionError, NoNodeError, SessionExpiredError, Store, StoreClosedError, StoreError
from zk.znodes import IsrChange as IsrChangeNotification
from zk.znodes import PartitionName, PartitionState

logger = logging.getLogger("kafkalite.broker.replication.isr_changes")

_TRACE: Final = "role=leader leader=%d isr=%s leader_epoch=%d controller_epoch=%d partition_epoch=%d reason=%s"
_RETRY_S = 0.05
_CHANGES_TOGETHER: Final = 4000
"""Changes in one AlterPartition. To make it and to apply its response takes some 20 ms each; a restart is followed by 30,000 changes."""
_ASK_AGAIN: Final = Backoff(50, 5_000)
"""Wait before ZooKeeper is asked again after an unknown outcome."""
_BY_TOPIC_ID_FROM = 2
_PROPAGATE_EVERY_S = 2.5
_PROPAGATE_QUIET_S = 5.0
_PROPAGATE_AT_LEAST_S = 60.0
_PARTITIONS_TOGETHER = 1000
"""Partitions in one notification: at most 300 KB, where servers take 1 MiB."""

_REFUSED = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""The ISR stays as it was, and may be proposed again."""

_WAIT_FOR_CONTROLLER = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""Our view is old: the change stays pending, with the maximal ISR in force, until the next LeaderAndIsr."""


class _IsrChanges:
    """Counts for metrics, state change log and tasks of ISR changes, however they are written."""

    def __init__(self, broker_id: BrokerId, now_ms: Callable[[], float]) -> None:
        self._broker_id, self._now_ms = broker_id, now_ms
        self._jobs = Jobs()
        self.shrinks = 0
        self.expands = 0

    async def close(self) -> None:
        """Stop the tasks that write changes."""
        await self._jobs.stop()

    def _complete_change(
        self,
        partition: Partition,
        change: IsrChange,
        isr: tuple[BrokerId, ...],
        leader_epoch: int,
        partition_epoch: int,
        trace: StateChangeTrace,
    ) -> None:
        """Apply a change that is in ZooKeeper; nothing happens if the partition changed hands meanwhile."""
        before = len(partition.isr)
        if partition.isr_committed(change, isr, leader_epoch, partition_epoch, self._now_ms()):
            self.shrinks += len(isr) < before
            self.expands += len(isr) > before
            told = (self._broker_id, isr, change.leader_epoch, change.controller_epoch, partition_epoch, change.reason)
            trace.note(change.topic_partition, *told)

    def _trace_changes(self, changes: int) -> StateChangeTrace:
        return StateChangeTrace(self._broker_id, _TRACE, changes)


class AlterPartitionSender(_IsrChanges):
    """Sends ISR changes to the controller, one AlterPartition request at a time (KIP-497)."""

    def __init__(
        self,
        broker_id: BrokerId,
        broker_epoch: Callable[[], int],
        channel: ControllerChannel,
        now_ms: Callable[[], float],
    ) -> None:
        super().__init__(broker_id, now_ms)
        self._broker_epoch, self._channel = broker_epoch, channel
        self._waiting: dict[TopicPartition, tuple[Partition, IsrChange]] = {}
        self._task: asyncio.Task[None] | None = None

    def propose(self, partition: Partition, change: IsrChange) -> None:
        reach("isr.changing")
        self._waiting[change.topic_partition] = (partition, change)
        if self._task is None or self._task.done():
            self._task = self._jobs.retry(self._run, "alter partition")

    async def _run(self) -> None:
        while self._waiting:
            batch = dict(islice(self._waiting.items(), _CHANGES_TOGETHER))
            current = {tp: (p, c) for tp, (p, c) in batch.items() if p.pending_change is c}
            for topic_partition in batch.keys() - current.keys():  # overtaken by a LeaderAndIsr
                del self._waiting[topic_partition]
            if current and (not await self._send(current) or current.keys() <= self._waiting.keys()):
                await asyncio.sleep(_RETRY_S)

    async def _send(self, batch: dict[TopicPartition, tuple[Partition, IsrChange]]) -> bool:
        """Send these changes; return False if some have to be sent again."""
        has_ids = all(change.topic_id != NO_TOPIC_ID for _, change in batch.values())
        request = self._request(batch)
        response = await self._channel.request(request, max_version=None if has_ids else _BY_TOPIC_ID_FROM - 1)
        if response.error_code:
            logger.info("the controller answers AlterPartition with %s", ErrorCode(response.error_code).name)
            return False
        names = {change.topic_id: tp.topic for tp, (_, change) in batch.items()}
        answered = True
        with self._trace_changes(len(batch)) as trace:
            for topic in response.topics:
                name = topic.topic_name or names.get(topic.topic_id, "")
                for answer in topic.partitions:
                    found = batch.get(TopicPartition(name, answer.partition_index))
                    if found is not None:
                        answered = self._handle_answer(*found, answer, trace) and answered
        return answered

    def _request(
        self, batch: dict[TopicPartition, tuple[Partition, IsrChange]]
    ) -> messages.alter_partition_request.AlterPartitionRequest:
        m = messages.alter_partition_request
        topics: dict[str, messages.alter_partition_request.TopicData] = {}
        for topic_partition, (_, change) in batch.items():
            topic = topics.setdefault(
                topic_partition.topic, m.TopicData(topic_name=topic_partition.topic, topic_id=change.topic_id)
            )
            topic.partitions.append(
                m.PartitionData(
                    partition_index=topic_partition.partition,
                    leader_epoch=change.leader_epoch,
                    new_isr_with_epochs=[m.BrokerState(broker_id=broker) for broker in change.isr],
                    partition_epoch=change.partition_epoch,
                )
            )
        return m.AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    def _handle_answer(
        self,
        partition: Partition,
        change: IsrChange,
        answer: messages.alter_partition_response.PartitionData,
        trace: StateChangeTrace,
    ) -> bool:
        """Apply the outcome of one change; return False if it must be sent again."""
        code = ErrorCode(answer.error_code)
        if code not in (ErrorCode.NONE, *_REFUSED, *_WAIT_FOR_CONTROLLER):
            logger.info("%s: AlterPartition is answered with %s, trying again", change.topic_partition, code.name)
            if change.topic_partition in self._waiting:  # behind those that were not asked for yet
                self._waiting[change.topic_partition] = self._waiting.pop(change.topic_partition)
            return False
        if self._waiting.get(change.topic_partition, (None, None))[1] is change:
            del self._waiting[change.topic_partition]
        if code == ErrorCode.NONE:
            isr = tuple(answer.isr)
            self._complete_change(partition, change, isr, answer.leader_epoch, answer.partition_epoch, trace)
        elif code in _REFUSED:
            partition.isr_refused(change)
        return True


class ZooKeeperIsrWriter(_IsrChanges):
    """Writes ISR changes into partition state znodes (Kafka's ZkPartitionStateStore and IsrChangePropagation)."""

    def __init__(self, broker_id: BrokerId, store: Store, now_ms: Callable[[], float]) -> None:
        super().__init__(broker_id, now_ms)
        self._store = store
        self._changed: set[PartitionName] = set()
        self._last_change_s = self._last_propagation_s = 0.0
        self._propagation: asyncio.Task[None] | None = None

    def propose(self, partition: Partition, change: IsrChange) -> None:
        reach("isr.changing")
        self._jobs.retry(partial(self._write, partition, change), f"writing the ISR of {change.topic_partition}")
        if self._propagation is None:
            self._propagation = self._jobs.retry(self._propagate, "isr change notifications")

    async def _write(self, partition: Partition, change: IsrChange) -> None:
        """Write the change and ask again, also under later sessions, until its outcome is known or a LeaderAndIsr overtakes it.

        The broken run, when a session that ended was taken for a refusal:

            1. leader 1 with the ISR {1} proposes {1,2}; ZooKeeper has it, and the session ends before the answer
            2. the controller elects 2
            3. leader 1 waits for nobody else any more and acknowledges what 2 will cut off
        """
        failures = 0
        while partition.pending_change is change:
            try:
                version = await self._write_or_find_version(change)
            except StoreClosedError:
                return
            except StoreError as problem:
                failures += 1
                level = logging.INFO if isinstance(problem, SessionExpiredError) else logging.WARNING
                logger.log(level, "%s: whether the ISR was written is unknown: %s", change.topic_partition, problem)
                await asyncio.sleep(_ASK_AGAIN.delay_ms(failures) / 1000)
                continue
            if version is None:
                logger.info("%s: the state in ZooKeeper is newer; waiting for the controller", change.topic_partition)
                return
            with self._trace_changes(1) as trace:
                self._complete_change(partition, change, change.isr, change.leader_epoch, version, trace)
            self._changed.add(PartitionName(*change.topic_partition))
            self._last_change_s = asyncio.get_running_loop().time()
            return

    async def _write_or_find_version(self, change: IsrChange) -> int | None:
        """Write a change; return the version of its znode, None if another state is there, or none."""
        path = paths.partition_state(*change.topic_partition)
        wanted = PartitionState(
            leader=self._broker_id,
            leader_epoch=change.leader_epoch,
            isr=change.isr,
            controller_epoch=change.controller_epoch,
        ).encode()
        try:
            return (await self._store.write(path, wanted, change.partition_epoch)).version
        except NoNodeError:
            return None
        except BadVersionError:
            pass
        # Our own write may have been carried out although its answer was lost.
        try:
            data, stat = await self._store.read(path)
        except NoNodeError:
            return None
        return stat.version if data == wanted else None

    async def _propagate(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_PROPAGATE_EVERY_S)
            now_s = loop.time()
            quiet = now_s - self._last_change_s > _PROPAGATE_QUIET_S
            if not self._changed or not (quiet or now_s - self._last_propagation_s > _PROPAGATE_AT_LEAST_S):
                continue
            changed, self._changed = self._changed, set()
            try:
                while changed:
                    some = tuple(sorted(changed)[:_PARTITIONS_TOGETHER])
                    payload = IsrChangeNotification(partitions=some).encode()
                    await self._store.create(paths.ISR_CHANGE_PREFIX, payload, sequence=True)
                    changed.difference_update(some)
                self._last_propagation_s = now_s
            except StoreError as problem:
                logger.warning("ISR changes cannot be announced: %s", problem)
                self._changed |= changed
