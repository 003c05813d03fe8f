"""`python -m tests.fuzz --target NAME --cases N --seed S [--keep]`: fuzz longer than the tests do; see `engine`.

Without `--target` all targets are run. `--keep` puts findings into the corpus. Exit code 1 when something was found.
"""

from __future__ import annotations

import argparse
import logging
import sys

from tests.fuzz.engine import keep, run
from tests.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", choices=sorted(TARGETS), action="append")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    found = 0
    for name in arguments.target or sorted(TARGETS):
        report = run(TARGETS[name](), arguments.cases, arguments.seed)
        print(report, flush=True)
        found += len(report.findings)
        if arguments.keep:
            for finding in report.findings:
                keep(name, finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
