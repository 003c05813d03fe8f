"""The members of a group in a run: they read, note what they read, and commit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kafkalite.client import Admin, ClientError, Consumer, NoBrokersAvailableError, RebalanceListener, TopicPartition
from kafkalite.errors import ErrorCode
from kafkalite.testing.history.events import (
    NO_OFFSET,
    UNKNOWN_GENERATION,
    CommitAcknowledged,
    CommitGivenUp,
    CommitInvoked,
    OffsetFetched,
    PartitionAssigned,
)
from kafkalite.testing.simulation.faults import Fault
from kafkalite.testing.simulation.processes import Process, ProcessKilled
from kafkalite.types import OFFSETS_TOPIC
from tests.simulation.clients import connected
from tests.simulation.plan import FOR_GOOD, PAUSE_CLIENT

if TYPE_CHECKING:
    from tests.simulation.simulation_run import SimulationRun

_POLL_MS: Final = 500
_AUDIT_S: Final = 1.0
_AGAIN_S: Final = 1.0
REBALANCE_MS: Final = 60_000
"""So long a JoinGroup waits that went to a broker without power, in Java's client too: less than everything may take."""


class _Assignments(RebalanceListener):
    """Gives each assignment of a member a name: within one its positions only move forward."""

    def __init__(self, run: SimulationRun, group: str, name: str, owner: str) -> None:
        self._run, self._group, self._name = run, group, name
        self.owner = owner
        """The member: whoever takes a static member's place is the same one to its group."""
        self._count = 0
        self.consumer: Consumer | None = None

    @property
    def position(self) -> str:
        return f"{self._name}/{self._count}"

    @property
    def generation(self) -> int:
        assert self.consumer is not None and self.consumer._group is not None
        return self.consumer._group.membership.generation

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._count += 1
        for each in sorted(assigned):
            now_ns = self._run.now_ns
            self._run.note(PartitionAssigned(now_ns, self._group, self.owner, self.generation, *each))


class GroupReaders:
    """`committed`: the offsets that the group, or who looked at it, was told are committed.

    `read_offsets`: all that any member has read. `open_commits`: offsets of commits that may take effect at any time.
    """

    group: Final = "readers"

    def __init__(self, run: SimulationRun, topics: list[str]) -> None:
        self.committed: dict[TopicPartition, int] = {}
        self.read_offsets: dict[TopicPartition, set[int]] = {}
        self.open_commits: dict[TopicPartition, set[int]] = {}
        self._run = run
        self._topics = topics
        self._stopping = False
        self._commits = 0
        self._processes: dict[str, Process] = {}
        self._away_s: dict[str, float] = {}
        """How long after its death somebody takes a member's place."""
        self._given_up: set[str] = set()
        """Seats that stay empty once their member is dead."""

    def stop(self) -> None:
        """Have the members leave."""
        self._stopping = True

    async def read(self, number: int) -> None:
        """Run one member until `stop`, and those that take its place when it is killed, unless it was killed for good."""
        seat, runs = f"consumer-{number}", 0
        while not self._stopping:
            runs += 1
            name = seat if runs == 1 else f"{seat}.{runs}"
            try:
                await self._read_as(name, seat)
            except ProcessKilled:
                self._run.simulation.trace.add(name, "is killed")
                if seat in self._given_up:
                    return
                await asyncio.sleep(self._away_s.get(seat, 0.0))
            except ClientError as problem:
                # A coordinator that was replaced may have known a static member under another id: Java's consumer ends too.
                is_fenced = problem.code == ErrorCode.FENCED_INSTANCE_ID and self._run.plan.workload.get(
                    "static_members"
                )
                if not is_fenced and not isinstance(problem, NoBrokersAvailableError):
                    raise
                self._run.simulation.trace.add(name, f"begins again: {problem!r}")
                self._processes[seat].kill()
                await asyncio.sleep(_AGAIN_S)

    async def suffer(self, fault: Fault) -> None:
        """One fault of a member, at its moment."""
        await asyncio.sleep(fault.at_s)
        (seat,) = fault.targets
        process, trace = self._processes.get(seat), self._run.simulation.trace
        if process is None or not process.alive or process.paused:
            trace.add("fault", f"{fault.kind} {seat} is left out: nobody is there")
            return
        trace.add("fault", str(fault).strip())
        if fault.kind == PAUSE_CLIENT:
            process.pause()
            await asyncio.sleep(fault.length_s)
            process.resume()
        else:
            self._away_s[seat] = fault.length_s
            if fault.parameter(FOR_GOOD):
                self._given_up.add(seat)
            process.kill_after(int(fault.parameter("callbacks")), process.kill)
            while process.alive:
                await asyncio.sleep(0.05)

    async def _read_as(self, name: str, seat: str) -> None:
        run = self._run
        options = run.options(name)
        process = self._processes[seat] = run.simulation.process(name, seat)
        workload = run.plan.workload

        async def consume() -> None:
            is_static = bool(workload.get("static_members"))
            assignments = _Assignments(run, self.group, name, seat if is_static else name)
            assignments.consumer = consumer = Consumer(
                group_id=self.group,
                group_instance_id=seat if is_static else None,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=workload.get("session_timeout_ms", 6_000),
                heartbeat_interval_ms=1_500,
                max_poll_interval_ms=REBALANCE_MS,
                metadata_max_age_ms=10_000,
                fetch_max_wait_ms=2_000,
                **options,
            )
            consumer.subscribe(self._topics, listener=assignments)
            has_failed = False
            async with consumer:
                while not self._stopping:
                    found = await consumer.getmany(timeout_ms=_POLL_MS)
                    for partition, records in found.items():
                        for record in records:
                            run.note_read(assignments.position, record)
                            self.read_offsets.setdefault(partition, set()).add(record.offset)
                    if found or has_failed:
                        has_failed = not await self._commit(consumer, assignments, seat)
                    await asyncio.sleep(0.3)

        await run.within_process(process, consume())

    async def _commit(self, consumer: Consumer, assignments: _Assignments, seat: str) -> bool:
        """Is everything committed that was read?"""
        run, offsets = self._run, {each: found.offset for each, found in consumer.consumed_offsets().items()}
        self._commits += 1
        number, generation = self._commits, assignments.generation
        connects, connects_before = run.simulation.network.connects, run.simulation.network.connects[seat]
        for partition, offset in offsets.items():
            run.note(CommitInvoked(run.now_ns, self.group, assignments.owner, number, *partition, offset))
        try:
            await consumer.commit()
        except Exception as problem:
            self._run.simulation.trace.add(self.group, f"a commit failed: {problem!r}")
            self._leave_open(offsets)
            self._give_up(assignments, number, generation)
            return False
        else:
            self.committed |= offsets
            if offsets:
                known = generation if generation == assignments.generation else UNKNOWN_GENERATION
                run.note(CommitAcknowledged(run.now_ns, self.group, assignments.owner, number, known))
            if connects[seat] > connects_before:
                # An attempt was given up with its connection; what is on its way still arrives, maybe behind later commits.
                self._commits += 1
                for partition, offset in offsets.items():
                    run.note(
                        CommitInvoked(run.now_ns, self.group, assignments.owner, self._commits, *partition, offset)
                    )
                self._leave_open(offsets)
                self._give_up(assignments, self._commits, generation)
            return True

    def _give_up(self, assignments: _Assignments, number: int, generation: int) -> None:
        """Note that a commit may still take effect, in the generations of its member from the first attempt to the last."""
        run, generations = self._run, (generation, assignments.generation)
        if min(generations) >= 0:
            run.note(CommitGivenUp(run.now_ns, self.group, assignments.owner, number, max(generations)))

    def _leave_open(self, offsets: dict[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            self.open_commits.setdefault(partition, set()).add(offset)

    async def audit(self) -> None:
        """Ask every now and then what the group has committed, until `stop`."""
        process, options = self._run.client("watcher")

        async def ask() -> None:
            async with connected(Admin(**options)) as admin:
                while not self._stopping:
                    await self._ask(admin)
                    await asyncio.sleep(_AUDIT_S)

        await self._run.within_process(process, ask())

    async def _ask(self, admin: Admin) -> None:
        """A coordinator that cannot know of its successor tells what it has, here as in Kafka: such answers prove nothing."""
        run = self._run
        asked_ns, has_zombie = run.now_ns, run.witness.has_zombie(OFFSETS_TOPIC)
        try:
            found = await admin.list_group_offsets(self.group)
        except Exception as problem:
            run.simulation.trace.add("watcher", f"was not told: {problem!r}")
            return
        if has_zombie or run.witness.has_zombie(OFFSETS_TOPIC):
            return
        for partition in dict.fromkeys([*self.read_offsets, *found]):
            told = found.get(partition)
            offset = NO_OFFSET if told is None else told.offset
            if told is not None:  # also by a member that was killed before it was answered
                self.committed[partition] = max(self.committed.get(partition, 0), offset)
            run.note(OffsetFetched(run.now_ns, asked_ns, "watcher", self.group, *partition, offset))
