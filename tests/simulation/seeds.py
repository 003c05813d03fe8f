"""What runs come to, one by one or several at once.

Processes that live them import this module by its name, which they could not do with `__main__`.
"""

from __future__ import annotations

import gc
import multiprocessing
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

from tests.simulation.large.large_run import LargeRun
from tests.simulation.large.plan import BROKERS
from tests.simulation.plan import ROLES, WINDOW_S, Plan, add_lies, draw_honest, draw_plan
from tests.simulation.simulation_run import SimulationRun
from tests.simulation.transactions.plan import (
    TRANSACTIONS,
    add_transactional_lies,
    draw_honest_transactions,
    draw_transactions,
)
from tests.simulation.transactions.transactional_run import TransactionalRun

_TRANSACTIONAL: Final = 10
_CHUNK: Final = 5
_CHUNKS_FOR_A_PROCESS: Final = 100
"""Then a new one takes its place, so that memory stays what it was."""

Draw: TypeAlias = Callable[[int], Plan]


@dataclass(frozen=True)
class Result:
    """What one run came to; `problem` is empty when all promises were kept."""

    seed: int
    digest: str
    cpu_s: float
    virtual_s: float
    problem: str
    faults: tuple[str, ...]
    states: tuple[str, ...]
    """Rare states that it reached."""


_RARE: Final = {
    "a leader below its high watermark": "below the high watermark",
    "a controller that resigns": "resigns as controller",
    "no leader": "leader -1,",
    "a log cut in recovery": "behind the last valid batch",
    "a consumer behind a truncation": "was truncated",
    "a fresh producer id": "under a fresh producer id",
    "a compaction": "compacted from",
    "a reassignment": "create /admin/reassign",
    "no room": "No room left",
    "a log directory offline": "offline from now on",
    "a verdict about a broker": "is taken for dead",
    "a verdict that was not carried out": "seems to be dead and keeps its session",
    "the only one in sync taken for dead": "keeps its session: it is the only one in sync",
    "a session ended in a write": "is ended",
    "an unclean election": "an unclean election",
}


def live(plan: Plan, *, shows_all: bool = False) -> tuple[Result, SimulationRun]:
    """One run. The garbage collector looks once, behind it."""
    run = _make_run(plan)
    run.simulation.trace.shows_all = shows_all
    began_s = time.process_time()
    problem = ""
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of coroutines that a killed process had not begun
            run.run()
    except Exception as error:
        problem = (
            f"{type(error).__name__}: {error}\n{''.join(traceback.format_exception(error.__cause__ or error)[-2:])}"
        )
    finally:
        gc.enable()
    texts = [line.text for line in run.simulation.trace.lines]
    states = tuple(name for name, text in _RARE.items() if any(text in each for each in texts))
    cpu_s = time.process_time() - began_s
    now_s = run.simulation.time.now_s
    return Result(plan.seed, run.outcome.digest, cpu_s, now_s, problem, tuple(run.outcome.begun), states), run


def _make_run(plan: Plan) -> SimulationRun:
    if plan.workload.get(BROKERS):
        return LargeRun(plan)
    return TransactionalRun(plan) if plan.workload.get(TRANSACTIONS) else SimulationRun(plan)


def draw_any(seed: int) -> Plan:
    """The plan of a seed: every `_TRANSACTIONAL`th is one of transactions."""
    return draw_transactions(seed) if seed % _TRANSACTIONAL == _TRANSACTIONAL - 1 else draw_plan(seed)


def draw_lying(seed: int) -> Plan:
    """The same, with brokers that end sessions on evidence and take living ones for dead."""
    transactional = seed % _TRANSACTIONAL == _TRANSACTIONAL - 1
    plan = draw_honest_transactions(seed) if transactional else draw_honest(seed)
    plan = replace(plan, settings={**plan.settings, "kafkalite.failover.detection": "evidence"})
    return add_transactional_lies(plan) if transactional else add_lies(plan, ROLES, WINDOW_S)


def of_seed(seed: int, draw: Draw = draw_any) -> Result:
    result, _ = live(draw(seed))
    return result


def results(seeds: range, jobs: int, draw: Draw) -> Iterator[Result]:
    if jobs == 1:
        yield from (of_seed(each, draw) for each in seeds)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=_CHUNKS_FOR_A_PROCESS) as pool:
        yield from pool.imap_unordered(partial(of_seed, draw=draw), seeds, chunksize=_CHUNK)
