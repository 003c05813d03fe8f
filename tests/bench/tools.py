"""What our faces of Kafka's tools cost beside Apache Kafka's own: `python -m tests.bench.tools`.

The best of each, measured in turns; a machine that does much else at the time is given more turns. The exit status is 1 when a call takes
more than a tenth of Java's processor time, or more than a sixth of its time by the clock.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kafkalite.local.cluster import LocalCluster
from tests.peers.apache_kafka import TOOLS, fetch
from tests.peers.face_server import our_command

CALLS: Final = (
    *("kafka-topics --help", "kafka-configs --help", "kafka-consumer-groups --help", "kafka-console-consumer --help"),
    *("kafka-dump-log --help", "kafka-topics @ --list", "kafka-topics @ --describe", "kafka-get-offsets @"),
    *("kafka-configs @ --describe --entity-type topics", "kafka-configs @ --describe --broker 1"),
    *("kafka-consumer-groups @ --list", "kafka-consumer-groups @ --describe --all-groups"),
    *("kafka-log-dirs @ --describe", "kafka-reassign-partitions @ --list"),
)
ROUNDS: Final = 6
CPU_RATIO: Final = 10
WALL_RATIO: Final = 6
"""Java's threads compile and collect beside the program: where processors are free, its clock shows half of its work. Ours has one."""

FLAGS_OF_KAFKA: Final = (
    *("-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"),
    *("-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true"),
)
"""Of kafka-run-class.sh."""


class Cost(NamedTuple):
    """What a process took, in seconds: of the processors, user and system together, and of the clock."""

    cpu_s: float
    wall_s: float


def cost(command: Sequence[str], environment: Mapping[str, str]) -> Cost:
    begin = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(used.ru_utime + used.ru_stime, time.monotonic() - begin)


def kafka_command(name: str, *arguments: str) -> list[str]:
    home = fetch()
    log = f"-Dlog4j.configuration=file:{home / 'log4j-warn.properties'}"
    return ["java", *FLAGS_OF_KAFKA, log, "-cp", f"{home}/*", TOOLS[name], *arguments]


def best(costs: Sequence[Cost]) -> Cost:
    return Cost(min(each.cpu_s for each in costs), min(each.wall_s for each in costs))


def holds(ours: Cost, apache: Cost) -> bool:
    return ours.cpu_s * CPU_RATIO <= apache.cpu_s and ours.wall_s * WALL_RATIO <= apache.wall_s


def compare(call: str, servers: str, environment: Mapping[str, str]) -> tuple[Cost, Cost]:
    """(ours, Apache Kafka's)."""
    name, *arguments = call.replace("@", f"--bootstrap-server {servers}").split()
    commands = our_command(name, *arguments), kafka_command(name, *arguments)
    cost(commands[0], environment)  # compiles
    costs: tuple[list[Cost], list[Cost]] = ([], [])
    for _ in range(ROUNDS):
        for command, found in zip(commands, costs, strict=True):
            found.append(cost(command, environment))
        if holds(best(costs[0]), best(costs[1])):
            break
    return best(costs[0]), best(costs[1])


def main() -> int:
    fallen_short = 0
    with tempfile.TemporaryDirectory() as compiled, LocalCluster(brokers=1) as cluster:
        # As installed tools have it: modules are compiled, whatever this process was told of that.
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment = {**kept, "PYTHONPYCACHEPREFIX": compiled}
        for call in CALLS:
            ours, apache = compare(call, cluster.bootstrap_servers, environment)
            fallen_short += not holds(ours, apache)
            print(
                f"{call:60} cpu {apache.cpu_s / ours.cpu_s:5.1f}x  clock {apache.wall_s / ours.wall_s:5.1f}x",
                flush=True,
            )
    return 1 if fallen_short else 0


if __name__ == "__main__":
    sys.exit(main())
