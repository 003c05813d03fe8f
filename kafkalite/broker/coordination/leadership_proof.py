"""Proof that this broker still leads a partition, for coordinators, which answer from memory and not from the log.

A leader that is cut off from ZooKeeper, was paused, or whose session has ended hears of its successor late. What it appends meanwhile is
never acknowledged, because the in-sync replicas have left it. But a coordinator keeps committed offsets in memory, and would answer with
old ones while the new coordinator acknowledges others; Apache Kafka's does.

So while there is a doubt about the session (`SessionDoubt`), a coordinator asks all in-sync replicas first (`LeadershipProof`). A
successor is elected among these only, so when none of them is in a later leader epoch, nobody else had led when they were asked. Without
ZooKeeper's quorum no successor is elected, the replicas confirm, and groups go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from kafkalite.broker.replication.leader_offsets import code_of
from kafkalite.clock import Clock
from kafkalite.errors import ErrorCode, ProtocolViolation
from kafkalite.lifecycle import report
from kafkalite.net.connection import OpenToBroker, open_unauthenticated
from kafkalite.protocol import messages
from kafkalite.types import BrokerId, Endpoint, TopicPartition
from zk.store import SessionState, Store

if TYPE_CHECKING:
    from kafkalite.broker.replication.partition import Partition

_TIMEOUT_S: Final = 1.0
"""A replica that does not answer for so long proves nothing; clients retry."""

_KNOWS_EPOCHS_FROM: Final = 2
"""OffsetForLeaderEpoch names the current leader epoch (KIP-320)."""

_FOLLOWS: Final = [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER]
"""Error codes of a replica that follows in an epoch, for a question in the next epoch and for one in that epoch.

NOT_LEADER_OR_FOLLOWER alone proves nothing: a replica that was just restarted, and hosts the partition not yet, answers it to every
question, whatever it knew before. A later epoch is FENCED_LEADER_EPOCH. An earlier one, or none yet as long as its leader is not known
there, is UNKNOWN_LEADER_EPOCH to both.
"""

CHECKS: Final = 6
"""Calls of `SessionDoubt.check_pause` within a session's timeout."""


class SessionDoubt:
    """True while another broker may have been elected because the session ended, or may have ended.

    It lasts from the loss of the connection, or a pause of this process, until a session's timeout after there is a connection again: by
    then the controller has said who leads. ZooKeeper's client notices a lost connection before the server gives up the session.
    """

    def __init__(self, store: Store, clock: Clock, session_timeout_ms: int) -> None:
        self._clock, self._timeout_ms = clock, session_timeout_ms
        self._is_connected = store.state is SessionState.CONNECTED
        self._seen_ms = clock.monotonic_ms()
        self._until_ms = float("-inf")
        store.add_session_listener(self._on_session_state)

    def check_pause(self) -> None:
        """Note that the process runs; to be called `CHECKS` times within the session's timeout, so that a gap is a pause."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._seen_ms > self._timeout_ms / 2:
            self._until_ms = now_ms + self._timeout_ms
        self._seen_ms = now_ms

    def holds(self) -> bool:
        """True if another leader may have been elected by now."""
        self.check_pause()
        return not self._is_connected or self._seen_ms < self._until_ms

    def _on_session_state(self, state: SessionState) -> None:
        self._is_connected = state is SessionState.CONNECTED
        self._until_ms = self._clock.monotonic_ms() + self._timeout_ms


class LeadershipProof:
    """Asks in-sync replicas, with this `version` of OffsetForLeaderEpoch. Calls during a proof share the next one.

    `partition_of` has what this broker hosts, `endpoint_of` where brokers are, `spawn(coroutine, name)` runs a task under supervision.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        doubt: SessionDoubt,
        partition_of: Callable[[TopicPartition], Partition | None],
        endpoint_of: Callable[[BrokerId], Endpoint | None],
        version: int,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
        connect: OpenToBroker = open_unauthenticated,
    ) -> None:
        self._broker_id, self._doubt, self._partition_of = broker_id, doubt, partition_of
        self._endpoint_of, self._version, self._spawn, self._connect = endpoint_of, version, spawn, connect
        self._waiting: dict[TopicPartition, list[asyncio.Future[bool]]] = {}

    @property
    def is_needed(self) -> bool:
        """True if leadership is in doubt and replicas can be asked (inter.broker.protocol.version 2.1)."""
        return self._doubt.holds() and self._version >= _KNOWS_EPOCHS_FROM

    def seek(self, topic_partition: TopicPartition) -> asyncio.Future[bool]:
        """Return a future that is True if this broker led the partition at a moment after this call."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.get(topic_partition)
        if waiting is not None:
            waiting.append(future)
        else:
            self._waiting[topic_partition] = [future]
            self._spawn(self._seek(topic_partition), f"prove that {topic_partition} is led here")
        return future

    async def _seek(self, topic_partition: TopicPartition) -> None:
        """Prove leadership for all calls that wait, then for those that came meanwhile, until none waits."""
        while waiting := self._waiting[topic_partition]:
            self._waiting[topic_partition] = []
            is_proven = False
            try:
                is_proven = await self._is_proven(topic_partition)
            except Exception as problem:
                report(f"whether {topic_partition} is led here could not be asked", problem)
            for future in waiting:
                if not future.done():
                    future.set_result(is_proven)
        del self._waiting[topic_partition]

    async def _is_proven(self, topic_partition: TopicPartition) -> bool:
        partition = self._partition_of(topic_partition)
        if partition is None or not partition.is_leader:
            return False
        epoch = partition.leader_epoch
        others = [each for each in partition.maximal_isr if each != self._broker_id]
        confirmed = await asyncio.gather(*(self._confirms(each, topic_partition, epoch) for each in others))
        return all(confirmed) and partition.is_leader and partition.leader_epoch == epoch

    async def _confirms(self, replica: BrokerId, topic_partition: TopicPartition, epoch: int) -> bool:
        """True if this replica follows in `epoch`, and in no later one."""
        endpoint = self._endpoint_of(replica)
        if endpoint is None:
            return False
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                connection = await self._connect(endpoint, f"broker-{self._broker_id}-leadership", _TIMEOUT_S)
                try:
                    await connection.negotiate(_TIMEOUT_S)
                    response = await connection.request(self._make_request(topic_partition, epoch), self._version)
                finally:
                    connection.close()
        except (OSError, TimeoutError, ProtocolViolation):
            return False
        codes = [code_of(answer.error_code) for topic in response.topics for answer in topic.partitions]
        return codes == _FOLLOWS

    def _make_request(self, topic_partition: TopicPartition, epoch: int) -> messages.OffsetForLeaderEpochRequest:
        """Return the request in the epoch after `epoch` and in `epoch` itself, whose answers `_FOLLOWS` explains."""
        m = messages.offset_for_leader_epoch_request
        asked = [
            m.OffsetForLeaderPartition(
                partition=topic_partition.partition, current_leader_epoch=current, leader_epoch=epoch
            )
            for current in (epoch + 1, epoch)
        ]
        topic = m.OffsetForLeaderTopic(topic=topic_partition.topic, partitions=asked)
        return m.OffsetForLeaderEpochRequest(replica_id=self._broker_id, topics=[topic])
