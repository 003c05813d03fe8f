"""`python -m tests.simulation.bugs [--bug TEXT] [--seeds N] [--jobs 2] [--table]`: which transcript or rule finds each
bug, and after how many seeds.

The exit status is 1 when a bug is not found. `--table` writes TABLE.md beside this.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from tests.simulation.bugs.hunt import BUGS, TRANSCRIPTS, Caught, hunt
from tests.simulation.bugs.patching import Bug

TABLE: Final = Path(__file__).with_name("TABLE.md")


def _hunted(name: str, seeds: range) -> Caught:
    return hunt(next(bug for bug in BUGS if bug.name == name), seeds, transcripts=TRANSCRIPTS)


def table(found: list[Caught], seeds: int) -> str:
    """The text of TABLE.md."""
    caught = sum(each.is_caught for each in found)
    lines = [
        "# Bugs put back in, and what finds them",
        "",
        f"{caught} of {len(found)} are found by a transcript or within {seeds} seeds. "
        f"Written by `python -m tests.simulation.bugs --seeds {seeds} --table`.",
        "",
        "A transcript of `tests/simulation/transcripts` needs no seed. Seeds are those of lives under pressure (`pressure.py`;",
        "for transactions `transactional_pressure.py`), counted from 0.",
        "",
        "| Bug | Story | Found by | Seeds |",
        "|---|---|---|---|",
    ]
    lines += [f"| {each.bug.name} | {each.bug.story} | {each.by or 'not found'} | {_seeds(each)} |" for each in found]
    return "\n".join(lines) + "\n"


def _seeds(each: Caught) -> str:
    if not each.is_caught:
        return f"> {each.seeds}"
    return str(each.seeds or "none")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.bugs", description=__doc__)
    parser.add_argument("--bug", default="", help="only those whose name has this text")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds at most for each")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--table", action="store_true", help="write TABLE.md")
    parser.add_argument("--tell", action="store_true", help="print what each failure says")
    options = parser.parse_args()
    chosen: list[Bug] = [bug for bug in BUGS if options.bug in bug.name]
    seeds = range(options.first, options.first + options.seeds)
    found = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for each in pool.map(partial(_hunted, seeds=seeds), [bug.name for bug in chosen]):
            found.append(each)
            if options.table:  # as far as one has come: it takes long
                TABLE.write_text(table(found, options.seeds))
            print(f"{each.cpu_s:6.1f} s {each.seeds:4} seeds  {each.bug.name}: {each.by or 'NOT FOUND'}", flush=True)
            if options.tell and each.text:
                print(f"    {each.text[:2000]}", flush=True)
    missed = [each for each in found if not each.is_caught]
    print(f"{len(found) - len(missed)} of {len(found)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
