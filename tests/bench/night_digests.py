"""What digests cost a night: `python -m tests.bench.night_digests [--pairs 5] [--records 1000000] [--size 100] [--partitions 4]`.

One Spark session archives and audits the same day of the same topic without and with digests in the ledger, in pairs whose order changes.
Each pair has a topic of its own, so that its broker digests records that it has not digested before; a third night of each pair finds the
digests that the broker has kept. Processor time is that of all: this process, the JVM, Spark's Python workers, broker and ZooKeeper.

Two figures of each: the difference of the medians, which a busy machine hides, and the share that the digests' own requests have in
their night, measured around them. Results go to `tests/bench/results/night-digests-<moment>.json` and to a table; the command ends with 1
where the share of the processor is above `--limit` percent.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from unittest import mock

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from rich.console import Console
from rich.table import Table

from kafkalite.client import NewTopic, SyncAdmin, SyncProducer
from kafkalite.local.cluster import LocalCluster
from spark_jobs.batch import night as nights
from spark_jobs.batch.formats import Formats
from spark_jobs.batch.ledger import Entry
from spark_jobs.batch.session import open_session
from spark_jobs.batch.signatures import load_signer
from spark_jobs.jobs import archive, audit
from tests.bench.machine import file_system, machine
from tests.bench.spark_reading import own_processor_s, processor_s
from tests.spark.nights import DAY, FOREVER, night_on, unix_ms

RESULTS: Final = Path(__file__).parent / "results"
WITHOUT, WITH, KEPT = "without", "with", "with, kept"
SIDES: Final = (WITHOUT, WITH, KEPT)
DAY_MS: Final = 86_400_000
_WARM_UP_RECORDS: Final = 50_000


@dataclass(frozen=True, slots=True)
class Load:
    """A topic of `records` records with values of `size` bytes, spread over one day."""

    records: int
    size: int
    partitions: int


@dataclass(frozen=True, slots=True)
class Night:
    """One night: seconds on the clock and of processors, and of these what passed while digests were asked for."""

    wall_s: float
    processor_s: float
    digests_wall_s: float = 0.0
    digests_processor_s: float = 0.0


class Meter:
    """Adds up what passes within its blocks, without the processor time of a process that has no part in them."""

    def __init__(self, idle_pid: int | None = None) -> None:
        self.wall_s = self.processor_s = 0.0
        self._idle_pid = idle_pid

    @contextmanager
    def measure(self) -> Iterator[None]:
        # What looking into /proc takes is not counted: it is before the first look at the own time, and after the second.
        others_s, used_s, began_s = self._others_s(), time.process_time(), time.perf_counter()
        try:
            yield
        finally:
            self.wall_s += time.perf_counter() - began_s
            self.processor_s += time.process_time() - used_s
            self.processor_s += self._others_s() - others_s

    def _others_s(self) -> float:
        """Return the processor time of all that this process has started."""
        return processor_s() - (0.0 if self._idle_pid is None else own_processor_s(self._idle_pid))


class Bench:
    """Runs nights over topics of one broker, in one Spark session."""

    def __init__(self, spark: Any, servers: str, scratch: Path) -> None:
        self._spark, self._servers, self._scratch = spark, servers, scratch
        self._sign = load_signer(_write_key(scratch / "ledger.key"))

    def run(self, topic: str, name: str, load: Load, *, with_digests: bool) -> Night:
        """Archive and audit the day. RuntimeError where the archive has other records than were sent."""
        # Java compiles and cleans up after the archive while brokers are asked; its part in the digests is none.
        whole, digests = Meter(), Meter(self._spark.sparkContext._gateway.proc.pid)

        def note_metered(night: nights.Night, entry: Entry) -> Entry:
            with digests.measure():
                return nights.note_digests(night, entry)

        with (
            mock.patch.object(archive, "note_digests", note_metered),
            night_on(self._spark, self._servers, self._scratch / name) as unsigned,
            whole.measure(),
        ):
            night = replace(unsigned, sign=self._sign if with_digests else None)
            entry = archive.main(night, topic, DAY, Formats())
            audit.main(night, [topic], [DAY])
        if entry.counts["records"] != load.records:
            raise RuntimeError(f"{name}: {entry.counts['records']} of {load.records} records are archived")
        shutil.rmtree(self._scratch / name)
        return Night(whole.wall_s, whole.processor_s, digests.wall_s, digests.processor_s)

    def run_pair(self, topic: str, number: int, load: Load) -> dict[str, Night]:
        """Run a night without and one with digests, which begins in every second pair, and one that finds them kept."""
        first = [WITHOUT, WITH] if number % 2 == 0 else [WITH, WITHOUT]
        return {
            side: self.run(topic, f"{topic}-{place}", load, with_digests=side != WITHOUT)
            for place, side in enumerate([*first, KEPT])
        }


def _write_key(path: Path) -> Path:
    key = Ed25519PrivateKey.generate()
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return path


def share(measured: Sequence[Night], clock: str) -> float:
    """Return the median share, in percent, that asking for digests had in nights."""
    return statistics.median(100 * getattr(each, f"digests_{clock}") / getattr(each, clock) for each in measured)


def difference(pairs: Sequence[dict[str, Night]], side: str, clock: str) -> float:
    """Return by how many percent a side's median is above that of nights without digests."""
    plain, other = (statistics.median(getattr(each[name], clock) for each in pairs) for name in (WITHOUT, side))
    return 100 * (other / plain - 1)


def show(load: Load, pairs: Sequence[dict[str, Night]]) -> None:
    table = Table(title=f"a night of {load.records:,} records of {load.size} B, archived and audited")
    for column in ("", "s on the clock", "difference", "share of digests", "s of processors", "difference", "share"):
        table.add_column(column, justify="right" if column else "left")
    for side in SIDES:
        row = [side]
        for clock in ("wall_s", "processor_s"):
            median = statistics.median(getattr(each[side], clock) for each in pairs)
            row += [f"{median:.2f}"]
            told = side != WITHOUT
            row += [f"{difference(pairs, side, clock):+.1f} %" if told else ""]
            row += [f"{share([each[side] for each in pairs], clock):.2f} %" if told else ""]
        table.add_row(*row)
    Console(width=140).print(table)
    taken = statistics.median(each[WITH].digests_processor_s for each in pairs)
    Console().print(
        f"{1e6 * taken / load.records:.2f} µs of processor for a record that is digested for the first time"
    )


def fill(servers: str, topic: str, load: Load) -> None:
    with SyncAdmin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, load.partitions, 1, topic_configs=FOREVER)])
    values = [os.urandom(load.size // 2).hex().encode() for _ in range(1000)]
    begin_ms = unix_ms(DAY)
    with SyncProducer(bootstrap_servers=servers, acks=1, enable_idempotence=False) as producer:
        for number in range(load.records):
            at_ms = begin_ms + number * DAY_MS // load.records
            producer.send(
                topic, values[number % 1000], b"%08d" % number, partition=number % load.partitions, timestamp_ms=at_ms
            )
        producer.flush()


@click.command(help=__doc__)
@click.option("--pairs", "count", default=5, show_default=True, help="Topics, each with three nights.")
@click.option("--records", default=1_000_000, show_default=True, help="Of a night.")
@click.option("--size", default=100, show_default=True, help="Bytes of a value.")
@click.option("--partitions", default=4, show_default=True)
@click.option("--cores", default=2, show_default=True, help="Of Spark.")
@click.option("--limit", default=1.0, show_default=True, help="Percent of the processor that digests may take.")
def main(count: int, records: int, size: int, partitions: int, cores: int, limit: float) -> None:
    load = Load(records, size, partitions)
    with tempfile.TemporaryDirectory() as folder, LocalCluster(brokers=1) as cluster:
        scratch = Path(folder)
        spark = open_session(f"local[{cores}]", {"spark.local.dir": str(scratch), "spark.driver.memory": "2g"})
        bench, servers = Bench(spark, cluster.bootstrap_servers, scratch), cluster.bootstrap_servers
        small = Load(min(records, _WARM_UP_RECORDS), size, partitions)
        fill(servers, "warm-up", small)
        bench.run_pair("warm-up", 0, small)
        pairs = []
        for number in range(count):
            fill(servers, f"night-{number}", load)
            pairs.append(bench.run_pair(f"night-{number}", number, load))
        spark.stop()
    RESULTS.mkdir(exist_ok=True)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    record = {
        "machine": machine(),
        "file system": file_system(),
        "load": asdict(load),
        "pairs": [{side: asdict(night) for side, night in each.items()} for each in pairs],
    }
    (RESULTS / f"night-digests-{moment}.json").write_text(json.dumps(record, indent=1))
    show(load, pairs)
    if share([each[WITH] for each in pairs], "processor_s") > limit:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
