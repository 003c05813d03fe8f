"""What a unit of work costs where there is more of it: `python -m tests.bench.growth [--only NAME] [--times 1,4,16,64]`.

| Of | At 1× | Costs |
|---|---|---|
| partitions | 16 | a partition's creation, its rest, its first record, a record to each of them in turn, a broker's restart |
| connections | 8 | a record in a request of its own |
| records | 1 kB | a MB produced and consumed |
| brokers | 1, grows by the factor's square root | a broker's start and rest, a record in a request of its own, with a follower |
| log | 16 MB | a lookup by timestamp, a fetch from the middle, recovery after kill -9, a start after a clean stop |

Counted is the brokers' processor time, so a busy machine matters little; that of ZooKeeper and of clients is not. Nothing is subtracted:
the smallest sizes carry fixed costs. 64 brokers would say nothing on a machine with two processors, so 1×, 4×, 16× and 64× are 1, 2, 4 and
8 of them.

Each size has fresh brokers in each of `--rounds`, and the least counts. Their files are kept until the end: ext4 without a journal steps
over inodes that were deleted in the last minute, one by one, which would be charged to the brokers that create files next.

It writes `tests/bench/GROWTH.md` with its picture, or another page with `--output` and its picture beside it. The exit status is 1 when a
unit costs more than 1.5 times what it cost at a smaller size.
"""

from __future__ import annotations

import asyncio
import os
import random
import shlex
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.console import Console
from rich.table import Table

from kafkalite.local.broker_process import BrokerProcess, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from tests.bench.cells import MB, Target, captured_produce, drain, exchange, fill, new_topic, wait_for_controller
from tests.bench.clusters import cpu_s, idle_cpu_percent
from tests.bench.growth_page import Axis, growth, page, picture, too_fast
from tests.bench.lives import hammer, keep_asking, led
from tests.bench.machine import machine, ours
from tests.bench.storage import create, write

PAGE: Final = Path(__file__).with_name("GROWTH.md")
TIMES: Final = (1, 4, 16, 64)
SECONDS: Final = 5.0
"""Length of what is measured over a stretch of time."""

RECORDS: Final = 8192
"""Single records to partitions in turn: the same number to each of up to so many."""

WARM_UPS: Final = 3
"""Records to each partition before those: the first is served in the general way, and the layout of a record is known by the second.

Of 8 records to each of 1,024 partitions these would be a large part, of 512 to each of 16 none.
"""

DATA_MB: Final = 256
PASSES: Final = 4
CONNECTIONS_PER_BROKER: Final = 8
PARTITIONS_PER_BROKER: Final = 16
LOOKUPS: Final = 1000
SEGMENT_BYTES: Final = 100_000_000
BATCH_BYTES: Final = 16_384
"""Of the log in which places are looked for: as Java's producers have it."""

TIMEOUT_S: Final = 300.0
_QUIET: Final = {
    "zookeeper.session.timeout.ms": "2000",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "log.segment.delete.delay.ms": "0",
    "log.retention.check.interval.ms": "3600000",
    # All of a log is there to be recovered.
    "log.flush.offset.checkpoint.interval.ms": "3600000",
    "log.message.timestamp.before.max.ms": str(1 << 60),
}
Figures = dict[str, float]


def quiet_admin(servers: str) -> AdminClient:
    """It does not tell of brokers that are restarted or gone."""
    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


@contextmanager
def one_broker(folder: Path) -> Iterator[Target]:
    """A fresh one that has served every kind of client once, so that what is imported late is there."""
    with LocalCluster(brokers=1, properties=_QUIET, directory=folder) as cluster:
        target = Target(cluster, 0.0, SECONDS)
        wait_for_controller(target.servers)
        topic = new_topic(target)
        count, _ = fill(target, topic, 1000, seconds=0.2)
        drain(target, topic, count)
        yield target


def restart_s(broker: BrokerProcess, admin: AdminClient, topic: str, partitions: int) -> float:
    """Processor time until a broker that was stopped or killed leads all that it has."""
    broker.start()
    broker.wait_started(TIMEOUT_S)
    wait_until(lambda: led(admin, topic, partitions), "leaders", TIMEOUT_S)
    return cpu_s(broker)


def of_partitions(count: int, folder: Path) -> Figures:
    with one_broker(folder) as target:
        broker = target.cluster.broker(1)
        admin = quiet_admin(target.servers)
        before_s = cpu_s(broker)
        admin.create_topics([NewTopic("many", count, 1)], request_timeout=60)["many"].result(TIMEOUT_S)
        wait_until(lambda: led(admin, "many", count), "leaders", TIMEOUT_S)
        figures = {"creation: ms a partition": (cpu_s(broker) - before_s) * 1e3 / count}
        figures["rest: µs a second and partition"] = idle_cpu_percent(target.cluster, SECONDS) * 1e4 / count
        requests = [captured_produce("many", bytes(100), partition=each) for each in range(count)]
        with socket.create_connection((broker.host, broker.port), TIMEOUT_S) as peer:

            def cost_us(turns: int) -> float:
                """Return the cost of each record, of `turns` to each partition."""
                before_s = cpu_s(broker)
                for _ in range(turns):
                    for each in requests:
                        exchange(peer, each)
                return (cpu_s(broker) - before_s) * 1e6 / turns / count

            figures["first record of each: µs"] = cost_us(1)
            cost_us(WARM_UPS - 1)
            figures["single records to all in turn: µs each"] = cost_us(max(RECORDS // count, 1))
        broker.stop(TIMEOUT_S)
        figures["restart: ms a partition"] = restart_s(broker, admin, "many", count) * 1e3 / count
        return figures


def of_connections(count: int, folder: Path) -> Figures:
    with one_broker(folder) as target:
        return {"single records: µs each": hammer(target, count)[1]}


def of_records(kilobytes: int, folder: Path) -> Figures:
    """The least of some passes: the first ones write to memory that a virtual machine has not touched before, which is dear."""
    passes = []
    with one_broker(folder) as target:
        broker = target.cluster.broker(1)
        admin = quiet_admin(target.servers)
        for _ in range(PASSES):
            create(target, "records")
            before_s = cpu_s(broker)
            count = write(target, "records", DATA_MB * MB, value=os.urandom(1000 * kilobytes))
            between_s = cpu_s(broker)
            drain(target, "records", count)
            passes.append((between_s - before_s, cpu_s(broker) - between_s))
            admin.delete_topics(["records"])["records"].result(TIMEOUT_S)
            wait_until(lambda: not list(broker.log_dir.glob("records-*")), "the end of the files", TIMEOUT_S)
    produced_s, consumed_s = map(min, zip(*passes, strict=True))
    return {"produced: ms a MB": produced_s * 1e3 / DATA_MB, "consumed: ms a MB": consumed_s * 1e3 / DATA_MB}


def of_brokers(count: int, folder: Path) -> Figures:
    """One broker alone starts in another way and has no followers: those costs begin with two.

    Partitions stand in a ring, so that each broker has one to follow and one that follows it, however many there are.
    """
    with LocalCluster(brokers=count, properties=_QUIET, directory=folder) as cluster:
        brokers = list(cluster.brokers.values())
        figures = {} if count == 1 else {"start: ms a broker": sum(map(cpu_s, brokers)) * 1e3 / count}
        wait_for_controller(cluster.bootstrap_servers)
        admin = quiet_admin(cluster.bootstrap_servers)
        for topic, replicas in (("lone", 1), ("ring", 2)):
            if replicas <= count:
                places = [
                    [(each + place) % count + 1 for place in range(replicas)]
                    for each in range(PARTITIONS_PER_BROKER * count)
                ]
                new = NewTopic(topic, len(places), replica_assignment=places)
                admin.create_topics([new], request_timeout=60)[topic].result(TIMEOUT_S)
                wait_until(lambda: led(admin, topic, len(places)), "leaders", TIMEOUT_S)  # noqa: B023
        if count > 1:
            figures["rest: ms a second and broker"] = idle_cpu_percent(cluster, SECONDS) * 10 / count
        for topic, acks, what in (("lone", 1, "single records"), ("ring", -1, "single records with a follower")):
            if count > 1 or topic == "lone":
                asked = [
                    (brokers[each % count], captured_produce(topic, bytes(100), partition=each, acks=acks))
                    for each in range(CONNECTIONS_PER_BROKER * count)
                ]
                figures[f"{what}: µs each"] = keep_asking(asked, SECONDS)[1]
        return figures


async def asked(broker: BrokerProcess, ask: Callable[[Connection, int], Awaitable[None]]) -> float:
    """µs of processor time for each of many requests, one after the other."""
    connection = await Connection.open(broker.host, broker.port, client_id="bench", timeout_s=TIMEOUT_S)
    chance = random.Random(1)
    await ask(connection, 0)
    before_s = cpu_s(broker)
    for _ in range(LOOKUPS):
        await ask(connection, chance.randrange(1 << 30))
    spent_s = cpu_s(broker) - before_s
    connection.close()
    return spent_s * 1e6 / LOOKUPS


def of_log(megabytes: int, folder: Path) -> Figures:
    """Record n has the timestamp of the first one and n milliseconds."""
    first = int(time.time() * 1000) - 100_000_000

    async def look_up(connection: Connection, number: int) -> None:
        m = messages.list_offsets_request
        place = m.ListOffsetsPartition(partition_index=0, timestamp=first + number % count)
        topics = [m.ListOffsetsTopic(name="log", partitions=[place])]
        reply = await connection.request(m.ListOffsetsRequest(replica_id=-1, topics=topics), 5)
        (found,) = reply.topics[0].partitions
        if found.error_code or found.offset != number % count:
            raise RuntimeError(f"the timestamp of record {number % count} was found at {found.offset}")

    async def fetch(connection: Connection, number: int) -> None:
        m = messages.fetch_request
        place = m.FetchPartition(partition=0, fetch_offset=number % count, partition_max_bytes=BATCH_BYTES)
        topics = [m.FetchTopic(topic="log", partitions=[place])]
        request = m.FetchRequest(
            replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=BATCH_BYTES, session_epoch=-1, topics=topics
        )
        (found,) = (await connection.request(request, 11)).responses[0].partitions
        if found.error_code or not found.records:
            raise RuntimeError(f"a fetch from offset {number % count} got nothing, error {found.error_code}")

    with one_broker(folder) as target:
        broker = target.cluster.broker(1)
        admin = quiet_admin(target.servers)
        create(target, "log", segment_bytes=str(SEGMENT_BYTES))
        count = write(target, "log", megabytes * MB, first_timestamp=first, batch_bytes=BATCH_BYTES)
        figures = {
            "lookup by timestamp: µs each": asyncio.run(asked(broker, look_up)),
            "fetch from the middle: µs each": asyncio.run(asked(broker, fetch)),
        }
        broker.kill()
        figures["start after kill -9: ms a MB"] = restart_s(broker, admin, "log", 1) * 1e3 / megabytes
        broker.stop(TIMEOUT_S)
        figures["start after a clean stop: ms"] = restart_s(broker, admin, "log", 1) * 1e3
        return figures


@dataclass(frozen=True)
class Row:
    """What grows: its size at 1×, and how each size is measured."""

    unit: str
    base: int
    measure: Callable[[int, Path], Figures]
    exponent: float = 1.0

    def sizes(self, times: Sequence[int]) -> list[int]:
        return sorted({round(self.base * factor**self.exponent) for factor in times})


ROWS: Final = {
    "partitions": Row("partitions", 16, of_partitions),
    "connections": Row("connections", 8, of_connections),
    "records": Row("kB", 1, of_records),
    "brokers": Row("brokers", 1, of_brokers, exponent=0.5),
    "log": Row("MB", 16, of_log),
}


def measure(name: str, times: Sequence[int], rounds: int, folder: Path, tell: Callable[[str], None]) -> Axis:
    """The least of all rounds, which go through the sizes in turn: whatever else the machine does only adds."""
    row = ROWS[name]
    costs: dict[str, dict[int, float]] = {}
    for number in range(rounds):
        for size in row.sizes(times):
            tell(f"{name}: {size} {row.unit}, round {number + 1} of {rounds}")
            for what, cost in row.measure(size, folder / f"{name}-{size}-{number}").items():
                of_size = costs.setdefault(what, {})
                of_size[size] = min(cost, of_size.get(size, cost))
    return Axis(name, row.unit, costs)


def table_of(axis: Axis) -> Table:
    table = Table(title=f"{axis.name}: what a unit costs")
    table.add_column("cost", no_wrap=True)
    for size in axis.sizes:
        table.add_column(axis.label(size), justify="right")
    table.add_column("growth", justify="right")
    for what, costs in axis.costs.items():
        cells = [f"{costs[size]:.3g}" if size in costs else "" for size in axis.sizes]
        table.add_row(what, *cells, f"{growth(costs):.2f}" if len(costs) > 1 else "")
    return table


def factors(context: click.Context, parameter: click.Parameter, text: str) -> list[int]:
    """Of `--times`; at least 1 each."""
    try:
        found = [int(each) for each in text.split(",")]
    except ValueError:
        found = [0]
    if min(found) < 1:
        raise click.BadParameter("whole numbers of at least 1, with commas between them")
    return found


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(ROWS)), help="Measure this; can be repeated.")
@click.option("--times", default=",".join(map(str, TIMES)), show_default=True, callback=factors, help="Factors.")
@click.option("--rounds", default=3, show_default=True, help="Fresh brokers of each size; the least counts.")
@click.option("--output", type=click.Path(path_type=Path), default=PAGE, help="The page.  [default: GROWTH.md here]")
def main(only: tuple[str, ...], times: list[int], rounds: int, output: Path) -> None:
    """Measure what a unit of work costs where there is more of it, and write the page; the status is 1 when that grows."""
    console = Console(width=max(Console().width, 110))
    load, axes = [os.getloadavg()[0]], []
    with tempfile.TemporaryDirectory(prefix="kafkalite-growth-") as folder:
        for name in only or ROWS:
            with console.status(name) as status:
                axes.append(measure(name, times, rounds, Path(folder), status.update))
            console.print(table_of(axes[-1]))
    load.append(os.getloadavg()[0])
    result = {
        "at": datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"),
        "command": " ".join(["python -m tests.bench.growth", *map(shlex.quote, sys.argv[1:])]),
        "machine": machine(),
        "ours": ours(),
        "load": load,
        "rounds": rounds,
    }
    beside = output.with_name(output.stem.lower() + ".svg")
    output.write_text(page(result, axes, beside.name))
    beside.write_text(picture(axes))
    console.print(f"written to {output}")
    if grown := too_fast(axes):
        told = ", ".join(f"{name} ({times:.2f} times)" for name, times in grown.items())
        raise click.ClickException(f"grows faster than its work: {told}")


if __name__ == "__main__":
    main()
