"""How soon there is a cluster, as a user's test has it: `python -m tests.bench.starts`. Each start is a program of its own.

Beside the seconds that pass it tells those of processor time that the cluster's processes took by then, which a busy machine does not
change. The first start of all makes the archive of ZooKeeper's classes at its end (`zk.class_data`), and is not counted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from typing import Final

from kafkalite.local.cluster import LocalCluster
from kafkalite.local.frozen import FrozenCluster
from tests.processor_time import processor_s

CASES: Final = {"one broker and ZooKeeper": 1, "three brokers and ZooKeeper": 3}
FORK: Final = "a copy of a frozen cluster of one broker"
PROPERTIES: Final = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}


def _used_s() -> float:
    """Of this process and all below it."""
    return processor_s(os.getpid())


def start(brokers: int) -> None:
    """Print the seconds until the cluster serves, and those of processor time."""
    used_s, began_s = _used_s(), time.perf_counter()
    with LocalCluster(brokers=brokers, properties=PROPERTIES):
        print(time.perf_counter() - began_s, _used_s() - used_s)


def fork(rounds: int) -> None:
    """The same of copies, one after the other."""
    with LocalCluster(brokers=1, properties=PROPERTIES) as cluster, FrozenCluster(cluster) as frozen:
        with frozen.fork():
            pass  # the process from which their brokers are forked has begun
        for _ in range(rounds):
            used_s, began_s = _used_s(), time.perf_counter()
            with frozen.fork():
                print(time.perf_counter() - began_s, _used_s() - used_s)


def _told(*arguments: str) -> list[tuple[float, float]]:
    command = [sys.executable, "-m", "tests.bench.starts", *arguments]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [(float(seconds), float(used_s)) for seconds, used_s in map(str.split, lines)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--start", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--fork", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.start is not None:
        start(given.start)
    elif given.fork is not None:
        fork(given.fork)
    else:
        _told("--start", "1")
        figures = {
            case: [_told("--start", str(brokers))[0] for _ in range(given.rounds)] for case, brokers in CASES.items()
        }
        figures[FORK] = _told("--fork", str(given.rounds))
        for case, found in figures.items():
            seconds, used_s = (statistics.median(values) for values in zip(*found, strict=True))
            print(f"{case}: {seconds:.2f} s, {used_s:.2f} s of processor time")


if __name__ == "__main__":
    main()
