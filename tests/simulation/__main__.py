"""Many runs: `python -m tests.simulation --seeds 10000 --jobs 2`, or one with all that happened: `--seed 7 --trace`.

Every tenth seed is a run of transactions. Failures are printed as they come; a run that was interrupted goes on with `--from` the seed
that its last line names.

A seed that fails is lived once more, to see that it fails identically, and then with fewer and fewer faults, as long as it fails the same
way. The shortest plan is written as a file that `--replay` runs again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Final

from tests.simulation.large.plan import draw_large
from tests.simulation.plan import Plan
from tests.simulation.seeds import Draw, Result, draw_any, draw_lying, live, results
from tests.simulation.shrinking import shrink
from tests.simulation.transactions.plan import draw_transactions

_PROGRESS_S: Final = 30.0


def kind_of(problem: str) -> str:
    """What two failures have in common that are the same: the first words, without numbers."""
    first = problem.partition("\n")[0]
    return "".join(each for each in first[:60] if not each.isdigit())


def shortest(plan: Plan, problem: str) -> Plan:
    """The shortest plan that fails in the same way."""

    def fails(parts: list[object]) -> bool:
        result, _ = live(plan.only(parts))
        return bool(result.problem) and kind_of(result.problem) == kind_of(problem)

    return plan.only(shrink(plan.parts(), fails))


def tell(result: Result) -> None:
    verdict = "holds" if not result.problem else result.problem
    print(
        f"seed {result.seed}: {result.virtual_s:.1f} s in {result.cpu_s:.2f} s of CPU, "
        f"{', '.join(result.faults) or 'no fault'}; digest {result.digest}: {verdict}",
        flush=True,
    )


def examine(result: Result, folder: Path, draw: Draw) -> None:
    """Live a failing seed again, shorten its plan, and write that down."""
    plan = draw(result.seed)
    again, _ = live(plan)
    print(f"seed {result.seed} fails {'identically' if again.digest == result.digest else 'DIFFERENTLY'} again")
    plan = shortest(plan, result.problem)
    _, run = live(plan)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed-{result.seed}.txt"
    path.write_text(f"{plan}\n")
    path.with_suffix(".trace").write_text(f"{run.simulation.trace}\n")
    print(f"the shortest plan that fails so, in {path}:\n{plan}", flush=True)


def many(seeds: range, jobs: int, folder: Path, draw: Draw, *, tells_all: bool = False) -> int:
    began_s = told_s = time.monotonic()
    failed: list[Result] = []
    faults: Counter[str] = Counter()
    states: Counter[str] = Counter()
    runs, cpu_s, virtual_s = 0, 0.0, 0.0
    done: set[int] = set()
    next_seed = seeds.start
    for result in results(seeds, jobs, draw):
        runs += 1
        done.add(result.seed)
        while next_seed in done:
            done.remove(next_seed)
            next_seed += 1
        cpu_s += result.cpu_s
        virtual_s += result.virtual_s
        faults.update(result.faults)
        states.update(result.states)
        if result.problem:
            failed.append(result)
        if result.problem or tells_all:
            tell(result)
        if time.monotonic() - told_s > _PROGRESS_S:
            told_s = time.monotonic()
            left_s = (told_s - began_s) / runs * (len(seeds) - runs)
            print(
                f"{runs} of {len(seeds)} runs, {len(failed)} failed; {cpu_s / runs:.2f} s of CPU for one, "
                f"{left_s / 60:.0f} minutes to go; all before {next_seed} are done",
                flush=True,
            )
    print(
        f"{runs} runs, {virtual_s:.0f} s of virtual time in {time.monotonic() - began_s:.0f} s; "
        f"{cpu_s / max(1, runs):.2f} s of CPU for one; {len(failed)} failed"
    )
    for title, counts in (("faults", faults), ("runs that reached", states)):
        print(f"{title}: " + ", ".join(f"{name} {count}" for name, count in counts.most_common()))
    for result in failed[:3]:
        examine(result, folder, draw)
    if failed:
        print(f"failed: {', '.join(str(each.seed) for each in failed)}")
    return 1 if failed else 0


def one(plan: Plan, *, trace: bool, shows_all: bool) -> int:
    result, run = live(plan, shows_all=shows_all)
    if trace:
        print(plan)
        print(run.simulation.trace)
    tell(result)
    return 1 if result.problem else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--replay", type=Path, help="a plan, as a failing seed leaves it")
    parser.add_argument("--trace", action="store_true", help="print every change of state")
    parser.add_argument("--all", action="store_true", help="and all that went over the network or to a disk")
    parser.add_argument(
        "--folder", type=Path, default=Path("simulation-failures"), help="where failing plans are written"
    )
    parser.add_argument("--tell", action="store_true", help="print a line for each run, not only for those that fail")
    parser.add_argument("--transactions", action="store_true", help="only runs of transactions")
    parser.add_argument(
        "--lies", action="store_true", help="brokers end sessions on evidence and take living ones for dead"
    )
    parser.add_argument(
        "--brokers",
        type=int,
        help="runs of clusters with so many brokers in ten racks, with acts that concern many of them",
    )
    options = parser.parse_args()
    draw = draw_lying if options.lies else draw_transactions if options.transactions else draw_any
    if options.brokers is not None:
        draw = partial(draw_large, brokers=options.brokers)
    if options.replay is not None:
        return one(Plan.parse(options.replay.read_text()), trace=options.trace, shows_all=options.all)
    if options.seed is not None:
        return one(draw(options.seed), trace=options.trace or options.all, shows_all=options.all)
    seeds = range(options.first, options.first + options.seeds)
    return many(seeds, options.jobs, options.folder, draw, tells_all=options.tell)


if __name__ == "__main__":
    sys.exit(main())
