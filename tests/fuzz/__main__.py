"""`python -m tests.fuzz --target NAME --cases N --seed S [--keep]`: fuzz longer than the tests do; see `engine`.

Without `--target` all targets are run. `--keep` puts findings into the corpus. Exit code 1 when something was found.
With `--live` a real broker is sent frames, `--cases` of them, while another client measures how long it waits; see `live`.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator

from kafkalite.local.cluster import LocalCluster
from tests.fuzz import live
from tests.fuzz.engine import Finding, keep, run
from tests.fuzz.targets import TARGETS

_LIFE = 10_000
"""Frames to one broker; what they leave behind ends with it."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", choices=sorted(TARGETS), action="append")
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    reports = _live(arguments) if arguments.live else _in_memory(arguments)
    found = 0
    for name, shown, findings in reports:
        print(shown, flush=True)
        found += len(findings)
        if arguments.keep:
            for finding in findings:
                keep(name, finding)
    return 1 if found else 0


def _in_memory(arguments: argparse.Namespace) -> Iterator[tuple[str, str, list[Finding]]]:
    for name in arguments.target or sorted(TARGETS):
        report = run(TARGETS[name](), arguments.cases, arguments.seed)
        yield name, str(report), report.findings


def _live(arguments: argparse.Namespace) -> Iterator[tuple[str, str, list[Finding]]]:
    for life, first in enumerate(range(0, arguments.cases, _LIFE)):
        with LocalCluster(brokers=1) as cluster:
            report = live.run(cluster.broker(1), min(_LIFE, arguments.cases - first), arguments.seed + life)
        yield live.NAME, str(report), report.findings


if __name__ == "__main__":
    sys.exit(main())
