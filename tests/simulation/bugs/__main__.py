"""`python -m tests.simulation.bugs [--bug TEXT] [--seeds N] [--jobs 2] [--table]`: which transcript or rule finds each
bug, and after how many seeds.

The exit status is 1 when a bug is not found. `--table` writes TABLE.md beside this.
What found a bug according to that is tried first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.simulation.bugs.hunt import BUGS, TRANSCRIPTS, Caught, hunt
from tests.simulation.bugs.patching import Bug
from tests.simulation.bugs.table import TABLE, Row, parse, row, written


def _hunted(name: str, seeds: range, known: Mapping[str, Row]) -> Caught:
    bug = next(bug for bug in BUGS if bug.name == name)
    return hunt(bug, seeds, transcripts=TRANSCRIPTS, known=known.get(name))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.bugs", description=__doc__)
    parser.add_argument("--bug", default="", help="only those whose name has this text")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds at most for each")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--table", action="store_true", help="write what is found into TABLE.md")
    parser.add_argument("--known", action="store_true", help="only those that TABLE.md says are found")
    parser.add_argument("--tell", action="store_true", help="print what each failure says")
    options = parser.parse_args()
    rows = parse(TABLE.read_text()) if TABLE.exists() else {}
    chosen: list[Bug] = [bug for bug in BUGS if options.bug in bug.name]
    if options.known:
        chosen = [bug for bug in chosen if bug.name in rows and rows[bug.name].is_found]
    seeds = range(options.first, options.first + options.seeds)
    found = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for each in pool.map(partial(_hunted, seeds=seeds, known=rows), [bug.name for bug in chosen]):
            found.append(each)
            if options.table:  # as far as one has come: it takes long
                rows = {**rows, each.bug.name: row(each.by, each.seeds)}
                TABLE.write_text(written(BUGS, rows))
            print(f"{each.cpu_s:6.1f} s {each.seeds:4} seeds  {each.bug.name}: {each.by or 'NOT FOUND'}", flush=True)
            if options.tell and each.text:
                print(f"    {each.text[:2000]}", flush=True)
    missed = [each for each in found if not each.is_caught]
    print(f"{len(found) - len(missed)} of {len(found)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
