"""What partitions cost a cluster, and which cost grows faster than their number: `python -m tests.bench.scale`.

Three brokers, topics of 100 partitions that nobody uses, each number of partitions and factor on a cluster of its own. The steps are those
of `tests.bench.scale_rounds`; beside their seconds it tells the brokers' processor time, the bytes that the controller sent and what
ZooKeeper was asked. Sessions of dead brokers are ended at once, so that what follows a verdict is measured alone. At rest it tells the
memory, the processor time, and the speed of a producer and a consumer of one more partition.

With `--stand-ins N` the partitions stand at light stand-ins of N brokers instead, which answer what a controller asks and have no logs; the
steps are those of `tests.bench.stand_ins`. With `--as-apache` they prove no metadata, as Apache Kafka's brokers.
With `--profile FOLDER` brokers run under cProfile, which tells what is most expensive and makes all other figures worthless. With
`--beside-kafka` Apache Kafka's brokers are measured in the same run, by its own start script's flags.

The files of each cluster stay until the end of the run: ext4 takes five to ten times as long to make a file while it passes by inodes that
were deleted in the last five minutes, as those of the cluster before. So it is not to be run within five minutes of another run.

ZooKeeper has a heap of 1 GiB unless SERVER_JVMFLAGS says otherwise: with that of local clusters it ends at some 50,000 partitions.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from kafkalite.local.broker_process import BROKER_COMMAND
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from tests.bench import profiled_broker
from tests.bench.failover import APACHE, LOGS, OURS, parse_properties
from tests.bench.failover_rounds import BROKERS, PROPERTIES, failover_cluster
from tests.bench.growth_page import LIMIT, growth
from tests.bench.machine import file_system, machine, ours
from tests.bench.profiled_broker import Profile, Profiles
from tests.bench.scale_figures import Costs, figures_of, for_one
from tests.bench.scale_rounds import Scale, memory
from tests.bench.stand_ins import StandIns, StandInScale
from tests.peers import apache_kafka
from zk.servers.class_data import FLAGS as JVM_FLAGS

REAL_BESIDE_STAND_INS: Final = 2
"""The controller, and the one that takes over from it."""

ONE_OFFSETS_PARTITION: Final = {"offsets.topic.num.partitions": "1"}
ZOOKEEPER_HEAP: Final = "-Xmx1g"
FASTER: Final = ", faster than its work"
_WIDTH: Final = 160
Row = dict[str, Any]
"""What was measured of one cluster, as the result file has it."""


class Bench:
    """What is asked for, and what was measured until now."""

    def __init__(
        self,
        console: Console,
        *,
        stand_ins: int,
        as_apache: bool,
        zookeepers: int,
        properties: Mapping[str, str],
        seconds: float,
        profile: Path | None,
        folder: Path,
    ) -> None:
        self._console, self._stand_ins, self._zookeepers = console, stand_ins, zookeepers
        self._folder = folder
        self._stand_in_side = "apache" if as_apache else "ours"
        self._properties, self._seconds, self._profile = properties, seconds, profile
        self._profiles = None if profile is None else Profiles(profile)
        self.rows: list[Row] = []

    def measure(self, side: str, partitions: int, factor: int) -> None:
        """Measure one cluster. What was measured before something fails is kept."""
        row: Row = {"side": side, "partitions": partitions, "factor": factor, "stand-ins": self._stand_ins}
        self.rows.append(row | {"load": [os.getloadavg()[0]]})
        row = self.rows[-1]
        self._console.print(f"{side}, {partitions:,} partitions, factor {factor}", highlight=False)
        logs = LOGS / f"scale-{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}-logs"
        brokers = REAL_BESIDE_STAND_INS if self._stand_ins else BROKERS
        properties = {**ONE_OFFSETS_PARTITION, **(self._properties if side == OURS else {})}
        try:
            with (
                failover_cluster(
                    self._command(side),
                    properties,
                    self._zookeepers,
                    logs=logs,
                    brokers=brokers,
                    directory=self._folder / str(len(self.rows)),
                ) as cluster,
                ClusterFacts(cluster.zookeeper_connect) as facts,
            ):
                if self._stand_ins:
                    self._measure_stand_ins(row, cluster, facts)
                else:
                    self._measure_brokers(row, cluster, facts)
        except Exception:
            self._console.print(f"broker logs are in {logs}")
            raise
        finally:
            row["load"].append(os.getloadavg()[0])

    def _command(self, side: str) -> Sequence[str]:
        if side == APACHE:
            return apache_kafka.script_command(with_archive=True)
        return BROKER_COMMAND if self._profile is None else profiled_broker.command(self._profile)

    def _measure_brokers(self, row: Row, cluster: LocalCluster, facts: ClusterFacts) -> None:
        scale = Scale(cluster, facts, row["partitions"], row["factor"])
        empty = scale.resident_mb()
        self._take_steps(row, cluster, {"creation": scale.create})
        row["memory, MB"] = memory(empty, scale.resident_mb(), facts.controller())
        begun_s = scale.wait_for_rest()
        row["at rest"] = {
            "s after the creation, at most 120": begun_s,
            "processor, %": scale.rest_percent(self._seconds),
        } | scale.load(self._seconds)
        self._tell(", ".join(f"{name} {value:.0f} MB" for name, value in row["memory, MB"].items()))
        for name, step in scale.steps().items():
            scale.wait_for_rest()
            self._take_steps(row, cluster, {name: step})
        row["memory after all steps, MB"] = scale.resident_mb()

    def _measure_stand_ins(self, row: Row, cluster: LocalCluster, facts: ClusterFacts) -> None:
        with StandIns(cluster.zookeeper_connect, self._stand_ins, self._stand_in_side) as stand_ins:
            scale = StandInScale(cluster, facts, stand_ins, row["partitions"], row["factor"])
            row["received"] = scale.received
            self._take_steps(row, cluster, scale.steps())
            row["memory, MB"] = {"controller": cluster.broker(facts.controller()).resident_bytes() / 1e6}

    def _take_steps(self, row: Row, cluster: LocalCluster, steps: Mapping[str, Callable[[], Costs]]) -> None:
        for name, step in steps.items():
            self._profile_all(cluster)
            costs = step()
            row.setdefault("steps", {})[name] = costs.as_json()
            row.setdefault("figures", {}).update(figures_of(name, costs))
            stages = "".join(f", {stage} {took_s:.2f} s" for stage, took_s in costs.stages.items())
            self._tell(f"{name}: {costs.seconds:.2f} s, processor {costs.brokers_processor_s:.2f} s{stages}")
            if profiles := self._profile_all(cluster):
                row.setdefault("profiles", {})[name] = {str(broker): asdict(each) for broker, each in profiles.items()}
                self._tell_profile(profiles[costs.controller])

    def _profile_all(self, cluster: LocalCluster) -> dict[int, Profile]:
        """Return the profile of each running broker since the last call; nothing unless that is asked for."""
        if self._profiles is None:
            return {}
        return {each.id: self._profiles.take(each) for each in cluster.brokers.values() if each.running}

    def _tell_profile(self, found: Profile) -> None:
        for each in found.functions[:5]:
            self._tell(f"  controller's broker: {each.own_s:.2f} s in {each.calls} calls of {each.function}")
        self._tell(
            f"  other threads {found.other_threads_s:.2f} s; {found.objects:,} objects, {found.garbage:,} of garbage"
        )

    def _tell(self, line: str) -> None:
        self._console.print(f"  {line}", soft_wrap=True, highlight=False)


def groups_of(rows: Sequence[Row]) -> dict[tuple[str, int, int], dict[int, Row]]:
    """Return the rows that differ in their number of partitions only, by side, factor and stand-ins."""
    found: dict[tuple[str, int, int], dict[int, Row]] = {}
    for row in rows:
        found.setdefault((row["side"], row["factor"], row["stand-ins"]), {})[row["partitions"]] = row
    return found


def figures_of_row(row: Row) -> dict[str, float]:
    """Return what is expected to grow with the partitions of a row, by name."""
    memory_mb = {f"memory, {name}, MB": value for name, value in row.get("memory, MB", {}).items()}
    return row.get("figures", {}) | memory_mb


def table_of(rows: Mapping[int, Row], title: str) -> Table:
    """Return every figure at every size, what it is for one partition at the largest, and how many times the least for one elsewhere."""
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    sizes = sorted(rows)
    for name in ("figure", *(f"{size:,}" for size in sizes), "for one", "growth"):
        table.add_column(name, justify="left" if name == "figure" else "right", no_wrap=True)
    by_size = {size: figures_of_row(rows[size]) for size in sizes}
    for name, costs in for_one(by_size).items():
        times = growth(costs)
        grown = "-" if math.isnan(times) else f"{times:.2f}{FASTER if times > LIMIT else ''}"
        table.add_row(name, *_cells(by_size, sizes, name), small(costs[max(costs)], name), grown)
    at_rest = {size: rows[size].get("at rest", {}) for size in sizes}
    for name in {name: None for known in at_rest.values() for name in known}:
        table.add_row(f"at rest: {name}", *_cells(at_rest, sizes, name), "-", "-")
    return table


def _cells(by_size: Mapping[int, Mapping[str, float]], sizes: Sequence[int], name: str) -> list[str]:
    return [f"{by_size[size][name]:,.2f}" if name in by_size[size] else "-" for size in sizes]


def small(value: float, name: str) -> str:
    """Return a figure for one partition in the unit that fits it."""
    for unit, small_unit in ((", s", "µs"), (", MB", "B")):
        if name.endswith(unit):
            return f"{value * 1e6:,.1f} {small_unit}"
    return f"{value:,.3f}"


@click.command(help=__doc__)
@click.option("--partitions", multiple=True, type=int, default=(1000,), show_default=True, help="Can be repeated.")
@click.option(
    "--factor", "factors", multiple=True, type=int, default=(1, 3), show_default=True, help="Can be repeated."
)
@click.option("--stand-ins", default=0, show_default=True, help="Stand-ins for brokers instead of three brokers.")
@click.option("--as-apache", is_flag=True, help="Stand-ins prove no metadata, as Apache Kafka's brokers.")
@click.option(
    "--zookeepers", type=click.Choice(["1", "3"]), default="1", show_default=True, help="Servers of the ensemble."
)
@click.option("-X", "properties", multiple=True, help="key=value for our brokers; can be repeated.")
@click.option("--seconds", default=5.0, show_default=True, help="Of a producer, and at rest.")
@click.option("--profile", type=click.Path(path_type=Path), help="Run our brokers under cProfile; files go there.")
@click.option("--beside-kafka", is_flag=True, help="Measure Apache Kafka too.")
@click.option("--output", type=click.Path(path_type=Path), help="Write what was measured there, as JSON.")
def main(
    partitions: Sequence[int],
    factors: Sequence[int],
    stand_ins: int,
    as_apache: bool,
    zookeepers: str,
    properties: Sequence[str],
    seconds: float,
    profile: Path | None,
    beside_kafka: bool,
    output: Path | None,
) -> None:
    console = Console(width=max(Console().width, _WIDTH))
    os.environ.setdefault(JVM_FLAGS, ZOOKEEPER_HEAP)
    given = parse_properties(properties)
    if profile is not None:
        profile.mkdir(parents=True, exist_ok=True)
        profile = profile.absolute()
    with tempfile.TemporaryDirectory(prefix="kafkalite-scale-") as folder:
        bench = Bench(
            console,
            stand_ins=stand_ins,
            as_apache=as_apache,
            zookeepers=int(zookeepers),
            properties=given,
            seconds=seconds,
            profile=profile,
            folder=Path(folder),
        )
        try:
            for count in partitions:
                for factor in factors:
                    for side in (OURS, APACHE) if beside_kafka else (OURS,):
                        bench.measure(side, count, factor)
        finally:
            for (side, factor, _), rows in groups_of(bench.rows).items():
                console.print(
                    table_of(rows, f"{side}, factor {factor}" + (f", {stand_ins} stand-ins" if stand_ins else ""))
                )
            if output is not None:
                content = {
                    "at": datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"),
                    "command": " ".join(["python -m tests.bench.scale", *map(shlex.quote, sys.argv[1:])]),
                    "machine": machine() | {"niceness": os.nice(0)},
                    "sides": {OURS: ours(), APACHE: f"{apache_kafka.VERSION} with ZooKeeper"},
                    "file system": file_system(),
                    "properties": PROPERTIES | ONE_OFFSETS_PARTITION,
                    "properties of ours": given,
                    "measured": bench.rows,
                }
                output.write_text(json.dumps(content, indent=2) + "\n")
                console.print(f"written to {output}")


if __name__ == "__main__":
    main()
