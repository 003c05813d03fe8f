"""`python -m tests.simulation.bugs.replays [--failing 100]`: do seeds that fail, with bugs put back in, fail identically when lived again?

Each is lived twice, and the traces with every byte that went over the network or to a disk are compared by their digests, the lines and
what is said at the end word by word. The exit status is 1 when one differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import count, islice
from typing import Final, NamedTuple

from tests.simulation.bugs.hunt import BUGS, run_quietly
from tests.simulation.bugs.patching import Bug, put_in
from tests.simulation.bugs.pressure import pressure
from tests.simulation.bugs.table import TABLE, parse
from tests.simulation.bugs.transactional_pressure import transactional_pressure
from tests.simulation.bugs.transactions import TRANSACTIONAL
from tests.simulation.simulation_run import SimulationRun
from tests.simulation.transactions.transactional_run import TransactionalRun

SEEDS_FOR_A_BUG: Final = 3
"""So many are tried with one bug before the next bug's turn comes."""


class Ending(NamedTuple):
    """How a run ended; `problem` is empty when nothing failed."""

    digest: str
    trace: str
    problem: str


class Replay(NamedTuple):
    """A seed that failed, lived once more."""

    bug: Bug
    seed: int
    first: Ending
    again: Ending

    @property
    def is_identical(self) -> bool:
        return self.first == self.again


def ending(bug: Bug, seed: int) -> Ending:
    """Of the run of a seed under pressure while the program has the bug."""
    run = TransactionalRun(transactional_pressure(seed)) if bug in TRANSACTIONAL else SimulationRun(pressure(seed))
    problem = ""
    with put_in(bug):
        try:
            run_quietly(run)
        except Exception as failure:
            problem = f"{type(failure).__name__}: {failure}"
    return Ending(run.outcome.digest, str(run.simulation.trace), problem)


def replays(bugs: tuple[Bug, ...] = BUGS) -> Iterator[Replay]:
    """Of failing seeds, without end."""
    for round_number in count():
        for bug in bugs:
            for seed in range(round_number * SEEDS_FOR_A_BUG, (round_number + 1) * SEEDS_FOR_A_BUG):
                first = ending(bug, seed)
                if first.problem:
                    yield Replay(bug, seed, first, ending(bug, seed))


def found_by_lives() -> tuple[Bug, ...]:
    """As TABLE.md says; with the others, which transcripts find, runs fail seldom."""
    rows = parse(TABLE.read_text())
    return tuple(bug for bug in BUGS if bug.name in rows and rows[bug.name].seed is not None)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.bugs.replays", description=__doc__)
    parser.add_argument("--failing", type=int, default=100, help="how many seeds that fail")
    parser.add_argument(
        "--bug", default="", help="with bugs whose name has this text; by default with those that runs find"
    )
    options = parser.parse_args()
    different = 0
    chosen = tuple(bug for bug in BUGS if options.bug in bug.name) if options.bug else found_by_lives()
    for replay in islice(replays(chosen), options.failing):
        different += not replay.is_identical
        verdict = "identical" if replay.is_identical else "DIFFERENT"
        print(f"{verdict} {replay.first.digest} seed {replay.seed}, {replay.bug.name}", flush=True)
    print(f"{options.failing - different} of {options.failing} failing seeds fail identically again")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
