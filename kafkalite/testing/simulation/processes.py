"""Many processes in one: each has an event loop of its own, all share one virtual time, and the seed decides whose turn it is.

A process that is killed is never stepped again, so nothing of it runs any more, no `finally` either; that is what kill -9 is, and it may
come between any two callbacks (`kill_after`). Its connections end as its machine decides (`kafkalite.testing.simulation.network`). One that
is paused (SIGSTOP) is not stepped for a while, and then finds all its timers late and all that arrived meanwhile. What an event loop
cannot deliver to anybody, an exception in a callback or of a task that nobody awaits, fails the run.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import logging
import math
import random
import re
import weakref
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from kafkalite import NAME
from kafkalite.errors import KafkaError
from kafkalite.testing.simulation.interruptions import raised_to_caller
from kafkalite.testing.simulation.network import Network
from kafkalite.testing.simulation.readiness import Descriptors
from kafkalite.testing.simulation.sockets import SimulatedServer
from kafkalite.testing.simulation.trace import Trace
from kafkalite.testing.simulation.turns import Turns
from kafkalite.testing.simulation.virtual_time import Deadlock, VirtualTime, VirtualTimeLoop

T = TypeVar("T")

_EXECUTOR_S: Final = (0.00005, 0.001)
"""Between these a call in an executor takes."""
_CANCELLED_TIMERS: Final = 50
"""A loop keeps as many cancelled timers at least."""
_STEPS_AT_ONCE: Final = 100_000
"""After so many steps of loops without a moment passing nobody would ever wait again. A whole run has about ten thousand."""
_CLOSINGS: Final = 20
"""How often a coroutine of a dead process may await in a `finally` while it is taken apart."""
_UNNAMED: Final = re.compile(r"Task-\d+")
_LOGGERS: Final = (NAME, "zk")
_STATE_CHANGES: Final = "kafkalite.state_change"
"""The log of a controller's decisions: that it cannot elect anybody is an error there, and nothing unexpected."""


class ProcessKilled(Exception):
    """What was asked of a process that ended before it answered."""


class Livelock(AssertionError):
    """A loop has always something to do, so that time stands still."""


class KilledHere(SystemExit):
    """Unwinds what a process was doing when it was killed in the middle of a callback; what that still tries has no effect."""


class _Handle(asyncio.Handle):
    """A handle like asyncio's, made in a third of the time: there is no debugging."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = self._source_traceback = None


class _Timer(_Handle, asyncio.TimerHandle):
    """A timer, made likewise; `ProcessLoop.call_at` sets when it is due."""

    __slots__ = ()
    _when: float
    _scheduled: bool


class ProcessLoop(VirtualTimeLoop):
    """The loop of one process: its sockets are the simulated network's, its executors take time."""

    def __init__(
        self, process: Process, time: VirtualTime, turns: Turns, network: Network, chance: random.Random
    ) -> None:
        super().__init__(time)
        self.process = process
        self.timers: list[tuple[float, int, _Timer]] = []
        """A heap of when each is due, which was set first, and the timer: tuples are compared without running Python."""
        self.is_due = False
        """True while it is among `Turns.due`, which sets it."""
        self.tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        """Its tasks: asyncio has one list for the loops of all processes."""
        self._turns = turns
        self._timers_set = 0
        self._network = network
        self._chance = chance

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback as asyncio does, without its checks for debugging: a simulation run calls nothing more often."""
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        if not self.is_due:
            self._turns.add(self)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[T]:
        """Create a task as asyncio does, without its checks."""
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self.tasks.add(task)
        return task

    def running_tasks(self) -> set[asyncio.Task[Any]]:
        """Return the tasks that have not ended."""
        return {task for task in self.tasks if not task.done()}

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Set a timer as asyncio does; those that are due at the same moment run in the order in which they were set."""
        timer = _Timer(callback, args, self, context)
        timer._when, timer._scheduled = when, True
        self._timers_set += 1
        heapq.heappush(self.timers, (when, self._timers_set, timer))
        if self.timers[0][2] is timer:
            self._turns.note_timer(self)
        return timer

    def step(self) -> None:
        """Run what is due, as asyncio's `_run_once` without selectors, signals and threads; return when the process is killed.

        That is done `Turns.rounds` times before it is another loop's turn.
        """
        process, now_s, ready, timers = self.process, self._time.now_s, self._ready, self.timers
        if self._timer_cancelled_count > _CANCELLED_TIMERS and self._timer_cancelled_count > len(timers) // 2:
            self._drop_cancelled_timers()
        while timers and (timers[0][0] <= now_s or timers[0][2]._cancelled):
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False
            if timer._cancelled:
                self._timer_cancelled_count -= 1
            else:
                ready.append(timer)
        asyncio._set_running_loop(self)
        self._thread_id = 1
        try:
            rounds = self._turns.rounds
            while ready and rounds:
                rounds -= 1
                for _ in range(len(ready)):
                    handle = ready.popleft()
                    if not handle._cancelled:
                        try:
                            handle._context.run(handle._callback, *handle._args)
                        except KilledHere:
                            return
                        except (SystemExit, KeyboardInterrupt):
                            raise
                        except BaseException as problem:
                            context = {
                                "message": f"Exception in callback {handle!r}",
                                "exception": problem,
                                "handle": handle,
                            }
                            self.call_exception_handler(context)
                        if process.callbacks_left is not None and process.count_down():
                            return
                if process.paused:
                    return
        finally:
            self._thread_id = None  # type: ignore[assignment]
            asyncio._set_running_loop(None)

    def _drop_cancelled_timers(self) -> None:
        for _, _, timer in self.timers:
            if timer.cancelled():
                timer._scheduled = False
        self.timers[:] = [entry for entry in self.timers if not entry[2].cancelled()]
        heapq.heapify(self.timers)
        self._timer_cancelled_count = 0

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        future = self.create_future()

        def work() -> None:
            try:
                outcome = func(*args)
            except Exception as problem:
                if not future.done():
                    future.set_exception(problem)
            else:
                if not future.done():
                    future.set_result(outcome)

        self.call_later(self._chance.uniform(*_EXECUTOR_S), work)
        return future

    def add_reader(  # type: ignore[override]
        self, fd: Any, callback: Callable[..., Any], *args: Any
    ) -> None:
        """Watch a simulated poll; there is nothing else that has a descriptor and no transport."""
        poll = next(each for each in self.process.descriptors.polls if each.fileno() == fd)
        poll.on_ready = lambda: callback(*args)
        poll.notify()

    def remove_reader(self, fd: Any) -> bool:
        """Watch a simulated poll no longer."""
        for poll in self.process.descriptors.polls:
            if poll.fileno() == fd:
                poll.on_ready = None
        return True

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, ssl: Any = None
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        if ssl is not None:
            raise ValueError("the simulated network has no TLS")
        return await self._network.connect(self.process, protocol_factory, host, port)

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None,
        port: int,
        *,
        backlog: int = 100,
        start_serving: bool = True,
    ) -> SimulatedServer:
        return self._network.bind(self.process, protocol_factory, port, start_serving)


def _task_name(task: asyncio.Task[Any]) -> str:
    """Return the name that was given to a task, or its coroutine's: asyncio's own ones count all tasks of the interpreter."""
    name = task.get_name()
    return getattr(task.get_coro(), "__qualname__", name) if _UNNAMED.fullmatch(name) else name


class Process:
    """One process, on the machine of the same name unless `machine` says another."""

    def __init__(self, simulation: Simulation, name: str, machine: str, place: int) -> None:
        self.name = name
        self.place = place
        """In the order in which the processes of the simulation were started."""
        self.machine = machine
        self.alive = True
        self.paused = False
        self.callbacks_left: int | None = None
        """How many more callbacks it runs before it is killed; None: nobody wants to kill it."""
        self._on_end: Callable[[], None] = self.kill
        self._simulation = simulation
        self.loop = ProcessLoop(
            self, simulation.time, simulation.turns, simulation.network, simulation.chance(f"{name}/executor")
        )
        self.loop.set_exception_handler(self._problem)
        self.descriptors = Descriptors(self.loop)
        self._outcomes: dict[asyncio.Future[Any], None] = {}

    def run(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Run a coroutine in the process. The future is the caller's, fails with ProcessKilled, and cancels it when cancelled."""
        caller = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = caller.create_future()
        task = self.loop.create_task(coroutine)
        self._outcomes[outcome] = None

        def pass_on(done: asyncio.Task[T]) -> None:
            self._outcomes.pop(outcome, None)
            if outcome.done():
                return
            if done.cancelled():
                outcome.cancel()
            elif (problem := done.exception()) is not None:
                outcome.set_exception(problem)
            else:
                outcome.set_result(done.result())

        def cancel(future: asyncio.Future[T]) -> None:
            if future.cancelled():
                self.loop.call_soon(task.cancel)

        task.add_done_callback(lambda done: caller.call_soon(pass_on, done))
        outcome.add_done_callback(cancel)
        return outcome

    def tasks(self) -> list[str]:
        """Names of the tasks that have not ended."""
        return sorted(map(_task_name, self.loop.running_tasks()))

    def kill(self, *, unheard: bool = False) -> None:
        """End it at once, as kill -9; `unheard`: its connections just fall silent, as when its machine loses power."""
        if not self.alive:
            return
        self.alive = False
        self._simulation.turns.remove(self.loop)
        self._simulation.network.process_ended(self, unheard=unheard)
        for outcome in list(self._outcomes):
            if not outcome.done():
                outcome.set_exception(ProcessKilled(self.name))
                outcome.exception()  # whoever awaits it still sees it

    def pause(self) -> None:
        """Step the process no more, as after SIGSTOP."""
        self.paused = True
        self._simulation.turns.remove(self.loop)

    def resume(self) -> None:
        """Step the process again, as after SIGCONT."""
        self.paused = False
        self._simulation.turns.review(self.loop)

    def stall(self, length_s: float) -> None:
        """Let nothing of it run for `length_s`, because its loop waits for a slow disk."""
        if not self.paused:
            self.pause()
            self._simulation.director.loop.call_later(length_s, self.resume)

    def kill_after(self, callbacks: int, end: Callable[[], None]) -> None:
        """Call `end`, which kills the process, after so many more callbacks of its loop: between any two awaits."""
        self.callbacks_left, self._on_end = callbacks, end

    def count_down(self) -> bool:
        """Count a callback that has run; True if it was the last one, and the process is killed."""
        assert self.callbacks_left is not None
        self.callbacks_left -= 1
        if self.callbacks_left > 0:
            return False
        self.callbacks_left = None
        director = self._simulation.director.loop
        asyncio._set_running_loop(director)
        self._on_end()
        return True

    def _problem(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if self.alive:
            self._simulation.problems.append(f"{self.name}: {context['message']}: {context.get('exception')!r}")
            self._simulation.causes.append(context.get("exception"))

    def take_apart(self) -> None:
        """Close after the run what was left in the middle of something, where it can do no harm."""
        self.alive = False
        self.loop.set_exception_handler(lambda loop, context: None)
        closed: set[asyncio.Task[Any]] = set()
        asyncio._set_running_loop(self.loop)
        try:
            while left := self.loop.running_tasks() - closed:  # what is closed may make new ones
                for task in left:
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    _close(task.get_coro())
                closed |= left
        finally:
            asyncio._set_running_loop(None)
        self.loop.close()
        self.loop.timers.clear()


def _close(coroutine: Any) -> None:
    if asyncio.iscoroutine(awaited := getattr(coroutine, "cr_await", None)):
        _close(awaited)  # first, or the outer one drops it at its first `await` in a `finally`
    for _ in range(_CLOSINGS):
        with suppress(BaseException):  # of its own cleaning up, which nobody is interested in
            coroutine.close()
            return


class Simulation:
    """One world under one seed. `chance` gives streams of random numbers that do not disturb each other."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.time = VirtualTime()
        self.trace = Trace(self.time)
        self.turns = Turns(self.time)
        self.network = Network(self.time, self.chance("network"), self.trace)
        self.problems: list[str] = []
        """Exceptions that nobody was there to take, and errors that were only logged."""
        self.causes: list[BaseException | None] = []
        self.may_complain: Counter[str] = Counter()
        """Of processes that may log errors of their disk, because it is broken: for how many reasons."""
        self.expected_errors: tuple[str, ...] = ()
        """Beginnings of errors that may be logged."""
        self._turn_chance = self.chance("turns")
        self._processes: list[Process] = []
        self.director = self.process("director")
        """Runs the scenario; it kills, cuts and judges, and is not part of what is simulated."""
        self.network.kernel = self.director.loop

    def chance(self, stream: str) -> random.Random:
        """Return the random numbers of one purpose."""
        return random.Random(f"{self.seed}/{stream}")

    def process(self, name: str, machine: str | None = None) -> Process:
        """Start a process; `machine` has its name by default."""
        process = Process(self, name, machine or name, len(self._processes))
        self._processes.append(process)
        return process

    def machines(self) -> list[str]:
        """Return the names of all machines that there were."""
        return list(dict.fromkeys(each.machine for each in self._processes))

    def run(self, scenario: Coroutine[Any, Any, T], limit_s: float = 3600.0) -> T:
        """Run the scenario to its end. AssertionError when it hangs, takes longer than `limit_s` or left problems."""
        with raised_to_caller(), _listening(self):
            try:
                outcome = self._run(scenario, limit_s)
            finally:
                self.trace.is_over = True
                for process in self._processes:
                    process.take_apart()
        if self.problems:
            cause = next((each for each in self.causes if each is not None), None)
            raise AssertionError("\n".join(self.problems)) from cause
        return outcome

    def _run(self, scenario: Coroutine[Any, Any, T], limit_s: float) -> T:
        """Take one step after the other; all in one loop, because it turns ten thousand times in a run."""
        main = self.director.loop.create_task(scenario)
        time, turns, turn = self.time, self.turns, self._turn_chance.random
        due = turns.due
        steps = 0
        while not main.done():
            if due:
                loop = due[0 if len(due) == 1 else int(turn() * len(due))][1]
                loop.step()
                turns.review(loop)
                steps += 1
                if steps > _STEPS_AT_ONCE:
                    raise Livelock(f"{loop.process.name} goes on for ever at {time.now_s:g} s: {self._waiting()}")
                continue
            next_s = turns.find_next_s()
            if next_s == math.inf:
                raise Deadlock(f"nobody has anything to wait for: {self._waiting()}")
            if next_s > limit_s:
                raise AssertionError(f"not finished after {limit_s:g} s of virtual time; waiting: {self._waiting()}")
            time.now_s = next_s
            turns.add_due()
            steps = 0
        return main.result()

    def _waiting(self) -> str:
        return "; ".join(f"{each.name}: {', '.join(each.tasks())}" for each in self._processes if each.alive)


class _Listener(logging.Handler):
    def __init__(self, simulation: Simulation) -> None:
        super().__init__(logging.INFO)
        self._simulation = simulation

    def emit(self, record: logging.LogRecord) -> None:
        loop = asyncio._get_running_loop()
        if isinstance(loop, ProcessLoop) and not loop.process.alive:
            return
        source = loop.process.name if isinstance(loop, ProcessLoop) else "?"
        self._simulation.trace.add(source, record.getMessage())
        cause = record.exc_info[1] if record.exc_info else None
        if self._simulation.may_complain[source] and isinstance(cause, OSError | KafkaError | None):
            return
        if record.getMessage().startswith(self._simulation.expected_errors):
            return
        if record.levelno >= logging.ERROR and record.name != _STATE_CHANGES:
            self._simulation.problems.append(f"{source} logged: {record.getMessage()}")
            self._simulation.causes.append(cause)


@contextmanager
def _listening(simulation: Simulation) -> Iterator[None]:
    """Turn what the product logs into lines of the trace."""
    listener = _Listener(simulation)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    source = logging._srcfile
    logging._srcfile = None  # nobody asks where a line was logged, which costs more than the line
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(listener)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    try:
        yield
    finally:
        logging._srcfile = source
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(listener)
            logger.setLevel(level)
            logger.propagate = propagate
