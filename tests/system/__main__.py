"""The battery: each row a fault that real brokers and ZooKeeper servers must bear, with what was promised judged afterwards.

    python -m tests.system --list
    python -m tests.system --rows 1,8,15 [--seed 7] [--times 3]
    python -m tests.system --all [--workers 2]
    python -m tests.system --soak 60
    python -m tests.system --soak-detection 60

`--seed` is for what a row leaves to chance. Logs, data and histories of a run with a failure are kept below `--logs`. Exit status 1 when a
row fails. With `--workers` tests of different files run at once. `--soak` lets faults strike at random for so many minutes; see `soak`.
`--soak-detection` lets nothing but failure detection be tried so, on busy cores; see `detection_soak`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from tests.system.rows import ROWS

_SHOWN = 3000
_ROOT = Path(__file__).parents[2]


class Progress:
    """A pytest plugin: a line for each test as it ends, and what became of each."""

    def __init__(self) -> None:
        self.took_s: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()
        self.ran: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        self.took_s[name] += report.duration
        self.ran.add(name)
        if not report.passed:
            self.failed.add(name)
            print(f"\n{report.when}: {report.longreprtext[-_SHOWN:]}", flush=True)
        if report.when == "teardown":
            outcome = "FAILED" if name in self.failed else "passed"
            print(f"\n{outcome} {name} in {self.took_s[name]:.0f} s", flush=True)

    def of(self, tests: Collection[str]) -> tuple[str, float, int]:
        """Outcome, time and number of the tests that these node ids mean: a file's, one of them, or its parametrized forms."""
        starts = tuple(f"{each}{sign}" for each in tests for sign in ("::", "["))
        mine = [name for name in self.ran if name in tests or name.startswith(starts)]
        outcome = "not run" if not mine else "FAILED" if self.failed.intersection(mine) else "passed"
        return outcome, sum(self.took_s[name] for name in mine), len(mine)


def run(rows: Sequence[int], seed: int, logs: Path, workers: int) -> bool:
    """Run these rows once, print the table, and return whether all of them passed."""
    tests = {test: None for row in rows for test in ROWS[row].tests}
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        by_file[test.partition("::")[0]].append(test)
    progress = Progress()
    began_s = time.monotonic()
    arguments = [f"--seed={seed}", f"--basetemp={logs}", "-p", "no:cacheprovider", "-q", "--no-header", "-rN"]
    if workers > 1:
        arguments += ["-n", str(workers), "--dist", "loadfile"]
    status = pytest.main([*arguments, *(test for some in by_file.values() for test in some)], [progress])
    print(f"\n{'row':>4}  {'outcome':8} {'seconds':>8} {'tests':>6}  what")
    passed = status == pytest.ExitCode.OK
    for row in rows:
        outcome, took_s, count = progress.of(ROWS[row].tests)
        passed = passed and outcome == "passed"
        print(f"{row:>4}  {outcome:8} {took_s:>8.0f} {count:>6}  {ROWS[row].title}")
    print(f"seed {seed}: {len(rows)} rows in {time.monotonic() - began_s:.0f} s")
    if passed:
        shutil.rmtree(logs, ignore_errors=True)
    else:
        print(f"logs, data and histories are in {logs}")
    return passed


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.system", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--list", action="store_true", help="the rows")
    what.add_argument("--all", action="store_true", help="run every row")
    what.add_argument("--rows", help="run these, as 1,8,15")
    what.add_argument("--soak", type=float, metavar="MINUTES", help="faults at random for so long")
    what.add_argument(
        "--soak-detection", type=float, metavar="MINUTES", help="live brokers are not to be taken for dead"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", type=int, default=1, help="how often, with one seed more each time")
    parser.add_argument("--workers", type=int, default=1, help="how many processes share the tests of --rows and --all")
    parser.add_argument("--logs", type=Path, help="where logs are kept; by default a folder for temporary files")
    options = parser.parse_args()
    if options.list:
        for number, row in sorted(ROWS.items()):
            print(f"{number:>3}  {row.title}")
        return 0
    logs: Path = options.logs or Path(tempfile.mkdtemp(prefix="kafkalite-battery-"))
    logs.mkdir(parents=True, exist_ok=True)
    if options.soak is not None:
        from tests.system import soak

        return 0 if soak.run(options.soak, options.seed, logs) else 1
    if options.soak_detection is not None:
        from tests.system import detection_soak

        return 0 if detection_soak.run(options.soak_detection, options.seed, logs) else 1
    rows = sorted(ROWS) if options.all else [int(each) for each in options.rows.split(",")]
    if unknown := [row for row in rows if row not in ROWS]:
        parser.error(f"there is no row {unknown}")
    outcomes = [
        run(rows, options.seed + turn, logs / f"seed-{options.seed + turn}", options.workers)
        for turn in range(options.times)
    ]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.path.insert(0, str(_ROOT))
    sys.exit(main())
