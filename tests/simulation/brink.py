"""A topic that allows unclean elections, in runs whose brokers take living ones for dead: what it may lose, and what not.

An unclean election loses what its winner lacks, and that is promised to nobody. But it must have come from real ends of brokers or of their
sessions: a verdict about a broker that lives must not end the session of the only one in sync. A verdict and what it goes by are some
milliseconds apart, longer with a slow ZooKeeper or brokers that stand still, so only a broker that had been alone for that long counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.client import Consumer, NewTopic, Producer
from kafkalite.testing.simulation.lies import find_only_in_sync
from kafkalite.types import TopicPartition
from tests.simulation.clients import connected
from tests.simulation.plan import REPLICAS_ON_THE_BRINK
from zk import paths
from zk.store import Create, Operation, Result, SessionEnding, StoreError, Write
from zk.znodes import PartitionState

if TYPE_CHECKING:
    from tests.simulation.simulation_run import SimulationRun

BRINK: Final = "brink"
_PARTITION: Final = TopicPartition(BRINK, 0)
_SLOWS: Final = ("slow-zookeeper", "lose-quorum", "cut-zookeeper", "pause", "stall-at", "slow-disk")
_AT_ONCE_S: Final = 0.25
_SLOWLY_S: Final = 8.0


class Brink:
    """The topic of one run: `produce` to it, then `check` what is left. It watches from its making on."""

    def __init__(self, run: SimulationRun) -> None:
        self._run = run
        self._acknowledged: dict[int, int] = {}
        """Of each number its offset."""
        self._isr: tuple[int, ...] = ()
        self._alone: tuple[int | None, float] = (None, 0.0)
        """Who is the only registered member of the ISR, and since when."""
        self._unclean_elections = 0
        self._problems: list[str] = []
        is_slow = any(each.kind in _SLOWS for each in run.plan.faults)
        self._carried_out_s = _SLOWLY_S if is_slow else _AT_ONCE_S
        zookeeper = run.cluster.zookeeper
        self._notice, self._end_session = zookeeper.on_transaction, zookeeper.end_session
        zookeeper.on_transaction = self._transaction_seen
        zookeeper.end_session = self._session_ended  # type: ignore[method-assign]
        run.injection.lies.unclean_topics = (BRINK,)

    def topic(self) -> NewTopic:
        configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        return NewTopic(BRINK, 1, self._run.plan.workload[REPLICAS_ON_THE_BRINK], topic_configs=configs)

    async def produce(self) -> None:
        """Send numbers until faults are over, one after the other."""
        run, (process, options) = self._run, self._run.client("producer-brink")
        pace = run.simulation.chance("brink/pace")

        async def produce() -> None:
            client = Producer(clock=run.cluster.clock, acks="all", enable_idempotence=True, **options)
            async with connected(client) as producer:
                number = 0
                while not run.faults_are_over:
                    number += 1
                    delivery = await producer.send(BRINK, b"%d" % number, partition=0)
                    try:
                        self._acknowledged[number] = (await delivery).offset
                    except Exception as problem:
                        run.simulation.trace.add("producer-brink", f"{number}: {problem!r}")
                    await asyncio.sleep(pace.uniform(0.0, 0.1))

        await run.within_process(process, produce())

    async def check(self) -> None:
        """Read everything. AssertionError when something is lost that must not be."""
        process, options = self._run.client("reader-of-brink")

        async def read() -> set[int]:
            found: set[int] = set()
            async with Consumer(auto_offset_reset="earliest", **options) as consumer:
                end = (await consumer.end_offsets([_PARTITION]))[_PARTITION]
                consumer.assign([_PARTITION])
                while await consumer.position(_PARTITION) < end:
                    for records in (await consumer.getmany(timeout_ms=500)).values():
                        found.update(int(record.value) for record in records)
            return found

        found = await self._run.within_process(process, read())
        lost = {number: offset for number, offset in self._acknowledged.items() if number not in found}
        assert not self._problems, f"{'; '.join(self._problems)}; lost with that: {lost}"
        assert not lost or self._unclean_elections, f"{_PARTITION} has lost {lost} (number: offset) in clean elections"

    # what happens in ZooKeeper

    def _session_ended(self, session_id: int, password: bytes) -> SessionEnding:
        cluster = self._run.cluster
        broker = cluster.find_session_owner(session_id)
        lives = broker is not None and broker.process is not None
        alone, since_s = self._alone
        ending = self._end_session(session_id, password)
        if ending is SessionEnding.ENDED and broker is not None and lives and broker.broker_id == alone:
            alone_s = self._run.simulation.time.now_s - since_s
            problem = f"{broker.name} lives, was the only one in sync of {_PARTITION} for {alone_s:.3f} s, and is ended"
            self._run.simulation.trace.add("director", problem)
            if alone_s > self._carried_out_s:
                self._problems.append(problem)
        return ending

    def _transaction_seen(self, session_id: int, operations: Sequence[Operation], results: list[Result]) -> None:
        if self._notice is not None:
            self._notice(session_id, operations, results)
        if any(isinstance(each, StoreError) for each in results):
            return
        is_concerned = False
        for each in operations:
            if isinstance(each, Create | Write) and each.path == paths.partition_state(*_PARTITION):
                self._note_state(PartitionState.decode(each.data))
            is_concerned |= each.path.startswith(paths.BROKER_IDS) or each.path == paths.partition_state(*_PARTITION)
        if is_concerned:
            self._note_alone()

    def _note_state(self, state: PartitionState) -> None:
        if self._isr and state.leader >= 0 and state.leader not in self._isr:
            self._unclean_elections += 1
            self._run.simulation.expected_errors = (f"{_PARTITION}: truncating to ",)
            self._run.simulation.trace.add("director", f"an unclean election behind {self._isr}")
        self._isr = tuple(state.isr)

    def _note_alone(self) -> None:
        cluster = self._run.cluster
        alone = next((each for each in self._isr if find_only_in_sync(cluster, each, (BRINK,)) is not None), None)
        if alone is not None and cluster.broker_epoch(alone) is None:
            alone = None
        if alone != self._alone[0]:
            self._alone = alone, self._run.simulation.time.now_s
