"""How soon there is a cluster, as a user's test has it, beside Apache Kafka: `python -m tests.bench.starts [--rounds N] [--image NAME]`.

Each start is a program of its own, and takes until every broker answers and knows the others and a controller. Beside the seconds that
pass it tells those of processor time that the cluster's processes took by then, which a busy machine does not change.

| Of | Which are |
|---|---|
| kafkalite | processes of this source |
| Apache Kafka, tuned | processes with what makes them start soonest: an archive of their classes, Java's quick compiler, a small heap |
| Apache Kafka | processes with the flags of its own start script and no archive, for its distribution has none |
| an image (`--image`) | containers on the host's network: cp-kafka (a version with ZooKeeper), or ours |

ZooKeeper is the same for all: a process on this machine, with an archive of its classes. So what cp-kafka's row has more than Apache
Kafka's is what containers and their scripts take; those of a ZooKeeper in a container would come on top. A copy of a frozen cluster
(`kafkalite.local.frozen`) runs on the ZooKeeper that is there.
The first start of all makes the archive of ZooKeeper's classes at its end (`zk.servers.class_data`), and is not counted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

from kafkalite.config.environment import as_variables
from kafkalite.config.properties import parse_properties
from kafkalite.local.broker_process import BROKER_COMMAND
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.frozen import FrozenCluster
from tests.processor_time import processor_s

OURS: Final = "kafkalite"
TUNED: Final = "Apache Kafka, tuned"
SCRIPT: Final = "Apache Kafka"
SIZES: Final = (1, 3)
PROPERTIES: Final = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
_MODULE: Final = (sys.executable, "-m", "tests.bench.starts")
_ON_THE_HOST: Final = ("log.dirs", "kafkalite.http.listener")
"""Settings that are of no use in a container."""


class Figure(NamedTuple):
    """Of one start; processor time is None where containers run elsewhere."""

    seconds: float
    processor_s: float | None


def command_of(kind: str) -> Sequence[str]:
    """What runs a broker when the path of its properties is appended; a kind that is no row's is an image."""
    if kind == OURS:
        return BROKER_COMMAND
    if kind in (TUNED, SCRIPT):
        from tests.peers import apache_kafka

        return apache_kafka.broker_command() if kind == TUNED else apache_kafka.script_command(with_archive=False)
    return (*_MODULE, "--contained", kind, "--properties")


def run_contained(image: str, properties_path: Path) -> None:
    """Become `docker run`, which hands signals on."""
    properties = parse_properties(properties_path.read_text())
    settings = {name: text for name, text in properties.items() if name not in _ON_THE_HOST}
    settings |= {"advertised.listeners": settings["listeners"]}
    variables = [f"--env={name}={text}" for name, text in as_variables(settings).items()]
    os.execvp("docker", ["docker", "run", "--rm", "--network=host", "--no-healthcheck", *variables, image])


def start(kind: str, brokers: int) -> None:
    """Print the seconds until the cluster serves, and those of processor time."""
    command = command_of(kind)
    used_s, began_s = processor_s(os.getpid()), time.perf_counter()
    with LocalCluster(brokers=brokers, properties=PROPERTIES, command=command):
        print(time.perf_counter() - began_s, processor_s(os.getpid()) - used_s)


def fork(rounds: int) -> None:
    """The same of copies, one after the other."""
    with LocalCluster(brokers=1, properties=PROPERTIES) as cluster, FrozenCluster(cluster) as frozen:
        with frozen.fork():
            pass  # the process from which their brokers are forked has begun
        for _ in range(rounds):
            used_s, began_s = processor_s(os.getpid()), time.perf_counter()
            with frozen.fork():
                print(time.perf_counter() - began_s, processor_s(os.getpid()) - used_s)


def measured(*arguments: str) -> list[Figure]:
    # As installed programs have it: modules are compiled, whatever this process was told of that.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([*_MODULE, *arguments], check=True, stdout=subprocess.PIPE, text=True, env=environment)
    lines = done.stdout.splitlines()
    return [Figure(float(seconds), float(used_s)) for seconds, used_s in map(str.split, lines)]


def measure(kinds: Sequence[str], rounds: int) -> dict[tuple[str, str], list[Figure]]:
    """By row and size; rows take turns, so that what the machine does meanwhile hits all."""
    for kind in kinds:
        measured("--start", kind, "--brokers", "1")  # makes archives, and brings files into memory
    found: dict[tuple[str, str], list[Figure]] = {}
    for brokers in SIZES:
        what = f"{brokers} with ZooKeeper"
        for _ in range(rounds):
            for kind in kinds:
                (figure,) = measured("--start", kind, "--brokers", str(brokers))
                is_contained = kind not in (OURS, TUNED, SCRIPT)
                found.setdefault((what, kind), []).append(Figure(figure.seconds, None) if is_contained else figure)
    found["1, a copy of a frozen one", OURS] = measured("--fork", str(rounds))
    return found


def table_of(found: Mapping[tuple[str, str], Sequence[Figure]]) -> Table:
    """Medians, and the quickest."""
    table = Table(title="until every broker serves, in seconds")
    for name in ("brokers", "of"):
        table.add_column(name, no_wrap=True)
    for name in ("median", "quickest", "processor time"):
        table.add_column(name, justify="right")
    for (what, kind), figures in found.items():
        seconds = [each.seconds for each in figures]
        used = [each.processor_s for each in figures if each.processor_s is not None]
        cells = f"{statistics.median(seconds):.2f}", f"{min(seconds):.2f}"
        table.add_row(what, kind, *cells, f"{statistics.median(used):.2f}" if used else "-")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="starts of each row")
    parser.add_argument("--only-ours", action="store_true", help="without Apache Kafka")
    parser.add_argument(
        "--image", action="append", default=[], help="a row of containers; Docker has to have the image"
    )
    for name, kind in (("start", str), ("brokers", int), ("fork", int), ("contained", str), ("properties", Path)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.contained is not None:
        run_contained(given.contained, given.properties)
    elif given.start is not None:
        start(given.start, given.brokers)
    elif given.fork is not None:
        fork(given.fork)
    else:
        kinds = [OURS, *(() if given.only_ours else (TUNED, SCRIPT)), *given.image]
        Console(width=max(Console().width, 90)).print(table_of(measure(kinds, given.rounds)))


if __name__ == "__main__":
    main()
