"""How long single records take at half of the rate that is possible: `python -m tests.bench.half_load [--minutes 10] [--rate N]`, also of
brokers that run already, such as Apache Kafka's: `--servers host:port,...`.

Three brokers, ZooKeeper, a producer and a member of a group share this machine. Each record is a request of its own (no linger, one record
in a batch) with acks=all, to six partitions of factor 3 of which two replicas must be in sync.

1. The maximum: so many records are always under way, twice as many until that brings no more, while the group reads all of them.
2. Half of that, or `--rate`: each record is due at its moment, and time counts from there, whatever holds the producer up (no coordinated
   omission). The end is the producer's callback, or the record in the member's hands.

The tables tell how long it took, by minute and in all, what each side took of a processor, and how long its threads waited for one. The
exit status is 1 when acknowledgements in all miss a bar. `--journeys` tells what records waited for, too, with brokers that note when they
pass.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import click
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from kafkalite.local.broker_process import BROKER_COMMAND, wait_until
from kafkalite.local.cluster import LocalCluster
from tests.bench import journeys, stamping_broker
from tests.bench.lives import led
from tests.bench.machine import ours
from tests.processor_time import worked_s

BARS_MS: Final = {"p99": 10.0, "p99.9": 20.0}
PARTITIONS: Final = 6
FLOOD_S: Final = 8.0
FIRST_IN_FLIGHT: Final = 16
LAST_IN_FLIGHT: Final = 1024
_GAIN: Final = 1.05
"""Who brings less than a twentieth more, brings no more."""

_TIMEOUT_S: Final = 120.0
_LOOK_S: Final = 0.5
_PROPERTIES: Final = {
    "default.replication.factor": "3",
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "3600000",
}
Measured = Sequence[tuple[float, float]]
"""(when a record was due, how many seconds it took), in the order of their ends."""


class Latencies(NamedTuple):
    """Milliseconds within which that share of all was done."""

    p50: float
    p99: float
    p999: float
    most: float


def latencies(seconds: Sequence[float]) -> Latencies:
    """ValueError of none."""
    if not seconds:
        raise ValueError("nothing was measured")
    in_order = sorted(seconds)
    p50, p99, p999 = (in_order[int(len(in_order) * share)] * 1e3 for share in (0.5, 0.99, 0.999))
    return Latencies(p50, p99, p999, in_order[-1] * 1e3)


def by_minute(measured: Measured) -> list[Latencies]:
    """The minutes count from the first record that was due; a last piece of less than half a minute belongs to the one before."""
    begin_s, end_s = min(due for due, _ in measured), max(due for due, _ in measured)
    minutes: list[list[float]] = [[] for _ in range(max(round((end_s - begin_s) / 60), 1))]
    for due_s, took_s in measured:
        minutes[min(int((due_s - begin_s) / 60), len(minutes) - 1)].append(took_s)
    return [latencies(each) for each in minutes if each]


def misses(found: Latencies, bars_ms: Mapping[str, float]) -> list[str]:
    """The bars that are not held, with what was measured."""
    reached = {"p99": found.p99, "p99.9": found.p999}
    return [
        f"{name} {reached[name]:.1f} ms, bar {bar:g} ms" for name, bar in bars_ms.items() if not reached[name] < bar
    ]


def table_of(acknowledged: Measured, consumed: Measured) -> Table:
    table = Table(title="ms from the moment at which a record was due to its acknowledgement, and to its consumer")
    table.add_column("minute")
    for end in ("ack", "read"):
        for name in ("p50", "p99", "p99.9", "max"):
            table.add_column(f"{end} {name}", justify="right")
    rows = [*zip(by_minute(acknowledged), by_minute(consumed), strict=True)]
    rows.append((latencies([took for _, took in acknowledged]), latencies([took for _, took in consumed])))
    for number, ends in enumerate(rows, 1):
        name = "all" if number == len(rows) else str(number)
        table.add_row(name, *(f"{each:.2f}" for end in ends for each in end), end_section=number == len(rows) - 1)
    return table


def read(path: Path) -> Measured:
    """What an end of `paced` has saved."""
    found = stamping_broker.read_doubles(path)
    return list(zip(found[0::2], found[1::2], strict=True))


class Spent(NamedTuple):
    """Shares of a processor: how much of it a side's threads had, and for how long they waited for one, added up; None is not known."""

    worked: float
    queued: float | None


def queued_s(pid: int) -> float:
    """Seconds for which the threads of a process, of those that live, were ready to run and had no processor."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[1]) for task in tasks) / 1e9


class Bench:
    """Brokers, those of a cluster or others, and the programs that load them."""

    def __init__(self, servers: str, cluster: LocalCluster | None, folder: Path) -> None:
        self._servers, self._cluster, self._folder = servers, cluster, folder
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def new_topic(self, name: str) -> None:
        config = {"min.insync.replicas": "2"}
        self._admin.create_topics([NewTopic(name, PARTITIONS, 3, config=config)])[name].result(_TIMEOUT_S)
        wait_until(lambda: led(self._admin, name, PARTITIONS), "leaders", _TIMEOUT_S)

    def program(self, what: str, topic: str, *arguments: object) -> subprocess.Popen[str]:
        given = (what, self._servers, topic, *map(str, arguments))
        return subprocess.Popen([sys.executable, "-m", "tests.bench.paced", *given], stdout=subprocess.PIPE, text=True)

    @contextmanager
    def consumer(self, topic: str, count: int) -> Iterator[subprocess.Popen[str]]:
        """A member that has its partitions."""
        with self.program("consume", topic, f"readers-of-{topic}", count, self._folder / "consumed") as member:
            try:
                if member.stdout is None or not member.stdout.readline():
                    raise RuntimeError("the consumer ended before it had its partitions")
                yield member
            finally:
                member.kill()

    def maximum(self, console: Console) -> float:
        """Records a second."""
        self.new_topic("flood")
        rates = [0.0]
        with self.consumer("flood", 0):
            in_flight = FIRST_IN_FLIGHT
            while in_flight <= LAST_IN_FLIGHT:
                with console.status(f"{in_flight} records under way"):
                    rates.append(ended(self.program("flood", "flood", PARTITIONS, FLOOD_S, in_flight)))
                console.print(f"{in_flight:5} records under way: {rates[-1]:7,.0f} a second")
                if rates[-1] < max(rates[:-1]) * _GAIN:
                    break
                in_flight *= 2
        return max(rates)

    def run(self, rate: float, seconds: float, console: Console) -> tuple[Measured, Measured, dict[str, Spent]]:
        """(acknowledged, consumed, processor time by side)."""
        self.new_topic("paced")
        count = int(rate * seconds)
        with self.consumer("paced", count) as member:
            before, began_s = self._spent(), time.monotonic()
            with self.program("pace", "paced", PARTITIONS, count, rate, self._folder / "acknowledged") as producer:
                try:
                    with Progress(console=console, disable=not console.is_terminal) as progress:
                        task = progress.add_task(f"{rate:,.0f} records a second", total=seconds)
                        while producer.poll() is None and member.returncode is None:
                            progress.update(task, completed=min(time.monotonic() - began_s, seconds))
                            time.sleep(_LOOK_S)
                            member.poll()
                    after, took_s = self._spent(), time.monotonic() - began_s
                    spent = {
                        side: Spent(
                            *((last - first) / took_s for first, last in zip(before[side], after[side], strict=True))
                        )
                        for side in after
                    }
                    spent["producer"] = Spent(ended(producer), None)
                finally:
                    producer.kill()
            spent["consumer"] = Spent(ended(member), None)
        found = read(self._folder / "acknowledged"), read(self._folder / "consumed")
        if [len(each) for each in found] != [count, count]:
            raise RuntimeError(f"{count} records were sent, {len(found[0])} acknowledged, {len(found[1])} consumed")
        return *found, spent

    def _spent(self) -> dict[str, tuple[float, float]]:
        """Seconds on a processor and waiting for one, by side; of brokers that run already nothing is known."""
        if self._cluster is None:
            return {}
        members = self._cluster.ensemble.members if self._cluster.ensemble else []
        sides = {
            "three brokers": [each.pid for each in self._cluster.brokers.values()],
            "ZooKeeper": [each.process.pid for each in members if each.process],
        }
        return {side: (sum(map(worked_s, pids)), sum(map(queued_s, pids))) for side, pids in sides.items()}


def ended(program: subprocess.Popen[str]) -> float:
    """Wait for a program's end; its figure."""
    output, _ = program.communicate(timeout=_TIMEOUT_S)
    if program.returncode:
        raise RuntimeError(f"a program ended with status {program.returncode}; it has told why")
    return float(output.split()[-1])


@click.command()
@click.option("--minutes", default=10.0, show_default=True, help="How long records are sent.")
@click.option("--rate", type=float, help="Records a second.  [default: half of the maximum]")
@click.option("--p99", "p99_ms", default=BARS_MS["p99"], show_default=True, help="Milliseconds; the bar of 99 %.")
@click.option("--p999", "p999_ms", default=BARS_MS["p99.9"], show_default=True, help="That of 99.9 %.")
@click.option(
    "--journeys", "is_stamped", is_flag=True, help="Tell what records wait for; the brokers do a little more then."
)
@click.option("--servers", help="Brokers that run already.  [default: three of our own]")
def main(
    minutes: float, rate: float | None, p99_ms: float, p999_ms: float, is_stamped: bool, servers: str | None
) -> None:
    """Single records at half of the maximum rate: how long they take. The status is 1 when a bar is missed."""
    console = Console(width=max(Console().width, 110))
    console.print(f"brokers of {servers}" if servers else f"kafkalite {ours()}")
    with tempfile.TemporaryDirectory(prefix="kafkalite-half-") as folder, ExitStack() as own:
        command = stamping_broker.command(Path(folder)) if is_stamped else BROKER_COMMAND
        cluster = (
            None if servers else own.enter_context(LocalCluster(brokers=3, properties=_PROPERTIES, command=command))
        )
        bench = Bench(servers or (cluster.bootstrap_servers if cluster else ""), cluster, Path(folder))
        if rate is None:
            rate = bench.maximum(console) / 2
        console.print(f"{rate:,.0f} records a second for {minutes:g} minutes")
        acknowledged, consumed, spent = bench.run(rate, minutes * 60, console)
        legs: list[tuple[float, ...]] = []
        if cluster is not None and is_stamped:
            stamps = [stamping_broker.ask_stamps(broker, Path(folder)) for broker in cluster.brokers.values()]
            legs = journeys.legs_of(journeys.read_sent(Path(folder, "acknowledged.sent")), stamps)
    console.print(table_of(acknowledged, consumed))
    used = Table("side", "had", "waited for", title="share of a processor")
    for side, share in spent.items():
        used.add_row(side, *("" if each is None else f"{each * 100:.0f} %" for each in share))
    console.print(used)
    if legs:
        console.print(journeys.table_of(legs))
    if missed := misses(latencies([took for _, took in acknowledged]), {"p99": p99_ms, "p99.9": p999_ms}):
        raise click.ClickException("; ".join(missed))


if __name__ == "__main__":
    main()
