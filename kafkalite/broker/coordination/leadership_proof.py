"""Proof that this broker still leads a partition, for coordinators, which answer from memory and not from the log.

A leader that is cut off from ZooKeeper, was paused, or whose session has ended hears of its successor late. What it appends meanwhile is
never acknowledged, because the in-sync replicas have left it. But a coordinator keeps committed offsets in memory, and would answer with
old ones while the new coordinator acknowledges others; Apache Kafka's does. A repeated EndTxn is answered from memory too: a coordinator
whose last transaction of a producer was committed would say so of the next one, which it does not know.

So while there is a doubt about the session (`SessionDoubt`), a coordinator asks all in-sync replicas first (`LeadershipProof`). A
successor is elected among these only, so when none of them is in a later leader epoch, nobody else had led when they were asked. Without
ZooKeeper's quorum no successor is elected, the replicas confirm, and groups go on.

Where peers end sessions on evidence (`kafkalite.failover.detection=evidence`) a successor may lead before anything is in doubt here, so the
replicas are asked always.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkalite.broker.coordination.replica_questions import ReplicaQuestions
from kafkalite.clock import Clock
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.lifecycle import report
from kafkalite.types import BrokerId, TopicPartition
from zk.store import SessionState, Store

if TYPE_CHECKING:
    from kafkalite.broker.replication.partition import Partition

AnswerT = TypeVar("AnswerT")

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
    """Asks in-sync replicas. Calls during a proof share the next one.

    With `ends_early` peers may end the session of this broker before it notices anything; `partition_of` has what this broker hosts,
    `spawn(coroutine, name)` runs a task under supervision.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        doubt: SessionDoubt,
        ends_early: bool,
        partition_of: Callable[[TopicPartition], Partition | None],
        questions: ReplicaQuestions,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        self._broker_id, self._doubt, self._ends_early = broker_id, doubt, ends_early
        self._partition_of, self._questions, self._spawn = partition_of, questions, spawn
        self._waiting: dict[TopicPartition, list[asyncio.Future[bool]]] = {}

    @property
    def is_needed(self) -> bool:
        """True if leadership is in doubt, or may be lost without a sign of it."""
        return self._ends_early or self._doubt.holds()

    def close(self) -> None:
        """Close the connections to replicas, at shutdown."""
        self._questions.close()

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

    def confirm(
        self, topic_partition: TopicPartition, answer: AnswerT | asyncio.Future[AnswerT]
    ) -> AnswerT | asyncio.Future[AnswerT]:
        """Return an answer of a coordinator once it is sure that nobody else led the partition when it was made.

        One that waits for an append is sure by that. The others, made from memory, wait for a proof where one is needed, and become
        NOT_COORDINATOR without it.
        """
        if isinstance(answer, asyncio.Future) or not self.is_needed:
            return answer
        return asyncio.ensure_future(self._confirm(topic_partition, answer))

    async def _confirm(self, topic_partition: TopicPartition, answer: AnswerT) -> AnswerT:
        if not await self.seek(topic_partition):
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"another broker may lead {topic_partition}")
        return answer

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
        confirmed = await asyncio.gather(*(self._questions.ask(each, topic_partition, epoch) for each in others))
        return all(confirmed) and partition.is_leader and partition.leader_epoch == epoch
