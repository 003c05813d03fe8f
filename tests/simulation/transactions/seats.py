"""A transactional id, and whoever works under it: a process, its successor when it dies, and a zombie that does not know of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from kafkalite.client import ClientError, Producer, ProducerFencedError
from kafkalite.testing.history.events import ProducerStarted
from kafkalite.testing.simulation.faults import Fault
from kafkalite.testing.simulation.processes import Process, ProcessKilled
from tests.simulation.plan import PAUSE_CLIENT
from tests.simulation.transactions.recorded import RecordedProducer

if TYPE_CHECKING:
    from tests.simulation.transactions.transactional_run import TransactionalRun

_SUCCESSOR_S: Final = 0.2
"""Somebody takes the place of a silent client so much later."""
_AGAIN_S: Final = 0.3

Work = Callable[[RecordedProducer, dict[str, Any]], Awaitable[None]]


class Seat:
    """See the module. `work(producer, options)` is what a process does until it has done its part; a ClientError makes it begin again."""

    def __init__(self, run: TransactionalRun, name: str, work: Work) -> None:
        self.name = name
        self._run, self._work = run, work
        self._incarnations = 0
        self._producers = 0
        self._current: Process | None = None
        self._vacant_s = 0.0
        """How long after a death somebody takes the place."""
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Until the last process has done its part, and every zombie knows that it is one."""
        self._succeed()
        while left := [each for each in self._tasks if not each.done()]:
            await asyncio.wait(left)
        for each in self._tasks:
            each.result()

    def _succeed(self, delay_s: float = 0.0) -> None:
        self._tasks.append(asyncio.ensure_future(self._incarnation(delay_s)))

    async def _incarnation(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        run = self._run
        self._incarnations += 1
        name = f"{self.name}.{self._incarnations}"
        process = self._current = run.simulation.process(name, self.name)
        run.simulation.may_complain[name] += 1  # of being fenced
        try:
            await run.within_process(process, self._program(process, run.options(name)))
        except ProcessKilled:
            run.simulation.trace.add(name, "is killed")
            if self._current is process:
                self._succeed(self._vacant_s)

    async def _program(self, process: Process, options: dict[str, Any]) -> None:
        """Begins again behind every error, as long as nobody has its place."""
        workload, trace = self._run.plan.workload, self._run.simulation.trace
        while self._current is process:
            self._producers += 1
            name = f"{self.name}/{self._producers}"
            self._run.note(ProducerStarted(self._run.now_ns, name, -1, True, 0))
            trace.add(process.name, f"produces as {name}")
            try:
                async with Producer(
                    clock=self._run.cluster.clock,
                    transactional_id=self.name,
                    transaction_timeout_ms=workload.get("transaction_timeout_ms", 5000),
                    delivery_timeout_ms=workload.get("delivery_timeout_ms", 120_000),
                    batch_size=workload.get("batch_size", 16384),
                    linger_ms=workload.get("linger_ms", 0),
                    **options,
                ) as producer:
                    await producer.init_transactions()
                    recorded = RecordedProducer(self._run, name, producer)
                    try:
                        await self._work(recorded, options)
                    finally:
                        await recorded.settle()
                return
            except ProducerFencedError as problem:
                trace.add(process.name, f"is fenced: {problem}")
            except ClientError as problem:
                trace.add(process.name, f"begins again: {problem!r}")
            await asyncio.sleep(_AGAIN_S)

    async def suffer(self, fault: Fault) -> None:
        """One fault of a client, at its moment. With the parameter `alone` nobody takes the place of one that is silent."""
        await asyncio.sleep(fault.at_s)
        process, trace = self._current, self._run.simulation.trace
        if process is None or not process.alive or process.paused:
            trace.add("fault", f"{fault.kind} {self.name} is left out: nobody is there")
            return
        trace.add("fault", str(fault).strip())
        if fault.kind == PAUSE_CLIENT:
            process.pause()
            if not fault.parameter("alone"):
                self._succeed(_SUCCESSOR_S)
            await asyncio.sleep(fault.length_s)
            process.resume()
            return
        self._vacant_s = fault.length_s
        process.kill_after(int(fault.parameter("callbacks")), process.kill)
        while process.alive:
            await asyncio.sleep(0.05)
