"""How much memory a broker takes for each thing that it keeps: `python -m tests.bench.memory`.

| Of each | Which is |
|---|---|
| connection | idle, after it asked for versions and metadata |
| group member | in a balanced group of 50, with a subscription for two assignors and one partition |
| producer id | of an idempotent producer with five batches, as many as are remembered, in one partition |
| fetch session | of one partition, whose client has fetched twice |
| topic | of one partition, which nobody uses |

Each kind has a broker of its own, which gets more and more of it. The broker is weighed with a few, and at each size; the difference is
divided by the number between. Ours is weighed after a collection of all garbage: its memory in RAM (VmRSS), and the bytes of its Python
objects. With `--beside-kafka` Apache Kafka's broker is measured in the same way, by its own start script's flags but for a larger heap: its
live objects after a full collection, and its memory in RAM, which has what its heap was enlarged by and does not shrink. Sockets take
memory of the kernel besides, the same for both.

The bench raises its limit of file descriptors as far as it may; a size for which the system's limits do not suffice is left out, with the
reason in the result.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from kafkalite.local.broker_process import BrokerProcess
from kafkalite.local.cluster import LocalCluster
from tests.bench import weighed_broker
from tests.bench.failover import APACHE, OURS
from tests.bench.idle_topics import PatientAdmin
from tests.bench.machine import machine, ours
from tests.bench.memory_figures import Limits, bytes_for_each, find_obstacle
from tests.bench.memory_loads import Connections, FetchSessions, Load, Members, Producers, Topics, create_topic
from tests.bench.memory_probes import JavaScale, OurScale, Scale, find_jcmd, raise_limits
from tests.peers import apache_kafka
from zk.servers.class_data import FLAGS as JVM_FLAGS

KINDS: Final[Mapping[str, Callable[[BrokerProcess], Load]]] = {
    "connection": Connections,
    "group member": Members,
    "producer id": Producers,
    "fetch session": FetchSessions,
    "topic": Topics,
}
FEW: Final = 100
"""So many of a kind a broker has when it is weighed as empty: what it loads and makes for the first of them is not theirs."""

PROPERTIES: Final = {
    "max.connections": "1000000",
    "max.connections.per.ip": "1000000",
    "connections.max.idle.ms": "86400000",
    "max.incremental.fetch.session.cache.slots": "1000000",
    "group.max.size": "1000000",
    "group.max.session.timeout.ms": "86400000",
    "group.initial.rebalance.delay.ms": "500",
    "producer.id.expiration.ms": "86400000",
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
    "zookeeper.session.timeout.ms": "60000",
}
ZOOKEEPER_HEAP: Final = "-Xmx2g"
_START_TIMEOUT_S: Final = 300.0
_WIDTH: Final = 160


class Bench:
    """What is asked for, and what was measured until now."""

    def __init__(self, console: Console, folder: Path, limits: Limits, heap: str) -> None:
        self._console, self._folder, self._limits, self._heap = console, folder, limits, heap
        self.rows: list[dict[str, Any]] = []

    def measure(self, side: str, kind: str, sizes: Sequence[int]) -> None:
        """Measure one kind on a broker of its own. What was measured before something fails is kept."""
        possible = [size for size in sizes if self._is_possible(side, kind, size)]
        if not possible:
            return
        with LocalCluster(
            brokers=1, properties=PROPERTIES, command=self._command(side), start_timeout_s=_START_TIMEOUT_S
        ) as cluster:
            broker = cluster.broker(1)
            admin = PatientAdmin(broker.address)
            admin.wait_for_controller()
            create_topic(admin)
            scale = JavaScale(broker) if side == APACHE else OurScale(broker, self._folder)
            with closing(KINDS[kind](broker)) as load:
                self._weigh_sizes({"side": side, "kind": kind}, load, scale, possible)

    def _weigh_sizes(self, about: Mapping[str, Any], load: Load, scale: Scale, sizes: Sequence[int]) -> None:
        load.grow(FEW)
        empty = scale.weigh()
        for size in sizes:
            before = os.getloadavg()[0]
            load.grow(size)
            each = bytes_for_each(empty, scale.weigh(), size - FEW)
            self.rows.append({**about, "size": size, "each": each.as_json(), "load": [before, os.getloadavg()[0]]})
            self._tell(about, f"{size:,}: {each.resident:,.0f} bytes in RAM, {each.live:,.0f} of objects, for each")

    def _is_possible(self, side: str, kind: str, size: int) -> bool:
        obstacle = find_obstacle(kind, size, self._limits, keeps_logs_open=side == APACHE)
        if obstacle is not None:
            about = {"side": side, "kind": kind}
            self.rows.append({**about, "size": size, "left out": obstacle})
            self._tell(about, f"{size:,} left out: {obstacle}")
        return obstacle is None

    def _command(self, side: str) -> Sequence[str]:
        if side == OURS:
            return weighed_broker.command(self._folder)
        java = apache_kafka.script_command(with_archive=True)
        return [f"-Xmx{self._heap}" if each.startswith("-Xmx") else each for each in java]

    def _tell(self, about: Mapping[str, Any], line: str) -> None:
        self._console.print(f"{about['side']}, {about['kind']}, {line}", soft_wrap=True, highlight=False)


@click.command(help=__doc__)
@click.option("--only", multiple=True, type=click.Choice(list(KINDS)), help="Measure this; can be repeated.")
@click.option(
    "--size",
    "sizes",
    multiple=True,
    type=click.IntRange(min=FEW + 1),
    default=(1000, 10_000),
    show_default=True,
    help="Can be repeated.",
)
@click.option("--heap", default="6g", show_default=True, help="Largest heap of Apache Kafka's Java machine.")
@click.option("--beside-kafka", is_flag=True, help="Measure Apache Kafka too.")
@click.option("--output", type=click.Path(path_type=Path), help="Write what was measured there, as JSON.")
def main(only: Sequence[str], sizes: Sequence[int], heap: str, beside_kafka: bool, output: Path | None) -> None:
    console = Console(width=max(Console().width, _WIDTH))
    os.environ.setdefault(JVM_FLAGS, ZOOKEEPER_HEAP)
    if beside_kafka:
        find_jcmd()
    with tempfile.TemporaryDirectory(prefix="kafkalite-memory-") as folder:
        bench = Bench(console, Path(folder), raise_limits(), heap)
        try:
            for kind in only or KINDS:
                for side in (OURS, APACHE) if beside_kafka else (OURS,):
                    bench.measure(side, kind, sorted(set(sizes)))
        finally:
            if output is not None:
                content = {
                    "at": datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"),
                    "command": " ".join(["python -m tests.bench.memory", *map(shlex.quote, sys.argv[1:])]),
                    "machine": machine(),
                    "sides": {OURS: ours(), APACHE: f"{apache_kafka.VERSION} with ZooKeeper, heap up to {heap}"},
                    "properties": PROPERTIES,
                    "few": FEW,
                    "measured": bench.rows,
                }
                output.write_text(json.dumps(content, indent=2) + "\n")
                console.print(f"written to {output}")


if __name__ == "__main__":
    main()
