"""Runs programs of the field on a cluster, and writes what they do: `python -m tests.ecosystem --help`."""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

from tests.ecosystem.contract import HERE, Failed, Program, programs, scene
from tests.ecosystem.environments import Missing
from tests.ecosystem.table import Outcomes
from tests.museum.clusters import CLUSTERS
from tests.museum.stage import Stage


def _shown(program: Program, stage: Stage) -> str:
    """Empty when it does all that it should."""
    with tempfile.TemporaryDirectory(prefix="ecosystem-") as folder:
        try:
            with scene(program, stage, Path(folder)) as opened:
                program.show(opened)
        except (Failed, AssertionError, Missing, RuntimeError) as problem:
            return str(problem) or type(problem).__name__
    return ""


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """0 when all that was shown on our cluster works."""
    parser = argparse.ArgumentParser(prog="python -m tests.ecosystem", description=__doc__)
    parser.add_argument("--all", action="store_true", help="all of them, and the table")
    parser.add_argument("--program", action="append", default=[], help="only these: quixstreams, burrow, ...")
    parser.add_argument("--against", action="append", default=[], choices=("ours", "kafka-3.9"), help="ours without it")
    given = parser.parse_args()
    chosen = [
        each for each in programs() if given.all or each.name in given.program or (not given.program and each.quick)
    ]
    if not chosen:
        sys.exit(f"no such program; there are: {' '.join(each.name for each in programs())}")
    outcomes, failed = Outcomes(), False
    for against in given.against or ["ours"]:
        with CLUSTERS[against]() as stage:
            for program in chosen:
                if program.only_ours and against != "ours":
                    continue
                began_s, used_s = time.monotonic(), _children_s()
                problem = _shown(program, stage)
                outcomes.keep(program, against, problem)
                failed |= against == "ours" and bool(problem)
                took = f"{time.monotonic() - began_s:.1f} s, {_children_s() - used_s:.1f} s of processor time"
                print(f"{against} {program.name}: {problem or 'ok'} ({took})", flush=True)
    if given.all:
        (HERE / "TABLE.md").write_text(outcomes.table())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
