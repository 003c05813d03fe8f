"""Shows clients of two decades of Apache Kafka on a cluster, and writes what they can do: `python -m tests.museum --help`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tests.museum.clusters import CLUSTERS
from tests.museum.contract import Exhibit, exhibits
from tests.museum.environments import prepare
from tests.museum.features import FEATURES, ON_ZOOKEEPER
from tests.museum.program import Program, StepFailed
from tests.museum.results import Results
from tests.museum.stage import Stage, Visit


def _chosen(names: Sequence[str]) -> list[Exhibit]:
    found = [each for each in exhibits() if not names or any(each.name.startswith(name) for name in names)]
    if not found:
        sys.exit(f"no such client; there are: {' '.join(each.name for each in exhibits())}")
    return found


def _show(exhibit: Exhibit, stage: Stage, features: Sequence[str]) -> dict[str, str]:
    """An empty text for each feature that works, else what went wrong."""
    shown = {}
    if not stage.zookeeper:
        shown = {name: "there is no ZooKeeper" for name in features if exhibit.zookeeper_only or name in ON_ZOOKEEPER}
        features = [name for name in features if name not in shown]
    with closing(Program(exhibit, stage.bootstrap, stage.zookeeper)) as program:
        visit = Visit(exhibit, stage, program)
        for name in features:
            began_s = time.monotonic()
            try:
                FEATURES[name](visit)
                shown[name] = ""
            except (StepFailed, AssertionError) as problem:
                shown[name] = str(problem) or "failed"
            print(f"{exhibit.name} {name}: {shown[name] or 'ok'} ({time.monotonic() - began_s:.1f} s)", flush=True)
    return shown


def main() -> int:
    """0 when all that was shown on our cluster works."""
    parser = argparse.ArgumentParser(prog="python -m tests.museum", description=__doc__)
    parser.add_argument("--client", action="append", default=[], help="only these: java, java-0.9, ...")
    parser.add_argument("--feature", action="append", default=[], choices=list(FEATURES), help="only these")
    parser.add_argument("--against", action="append", default=[], choices=list(CLUSTERS), help="ours without it")
    parser.add_argument("--table", type=Path, help="write the table of all that was ever shown on this machine")
    given = parser.parse_args()
    chosen = _chosen(given.client)
    problems = prepare(chosen)
    for name, problem in problems.items():
        print(f"{name} cannot be set up: {problem}", file=sys.stderr)
    results = Results()
    failed = False
    for against in given.against or ["ours"]:
        with CLUSTERS[against]() as stage:
            for exhibit in chosen:
                features = [name for name in exhibit.features if not given.feature or name in given.feature]
                if exhibit.name not in problems:
                    shown = _show(exhibit, stage, features)
                    results.keep(exhibit.name, against, shown)
                    failed |= against == "ours" and any(shown.values())
    if given.table is not None:
        given.table.write_text(results.table())
    return int(failed or bool(problems))


if __name__ == "__main__":
    sys.exit(main())
