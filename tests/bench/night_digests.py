"""What digests cost a night: `python -m tests.bench.night_digests [--pairs 5] [--records 1000000] [--size 100] [--partitions 4]`.

One Spark session archives and audits the same day of the same topic without and with digests in the ledger, in pairs whose order alternates.
Each pair has a topic of its own, so that its broker digests records that it has not digested before; a third night of each pair finds
the digests that the broker has kept. Processor time is that of all: this process, the JVM, Spark's Python workers, broker and ZooKeeper.

Two figures of each: the difference of the medians, which a busy machine hides, and the share that the digests' own requests have in
their night, measured around them. Results go to `tests/bench/results/night-digests-<moment>.json` and to a table; the command ends with 1
where the share of the processor is above `--limit` percent.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from rich.console import Console
from rich.table import Table

from kafkalite.client import NewTopic, SyncAdmin, SyncProducer
from kafkalite.local.cluster import LocalCluster
from spark_jobs.batch.proof import Span, Sum
from spark_jobs.batch.records import Reading
from spark_jobs.batch.session import open_session
from spark_jobs.batch.signatures import Sign, load_signer
from spark_jobs.jobs import archive, audit
from spark_jobs.batch.formats import Formats
from tests.bench.machine import file_system, machine
from tests.bench.spark_reading import processor_s
from tests.spark.nights import DAY, FOREVER, night_on, unix_ms

RESULTS: Final = Path(__file__).parent / "results"
WITHOUT, WITH, KEPT = "without", "with", "with, kept"
SIDES: Final = (WITHOUT, WITH, KEPT)
DAY_MS: Final = 86_400_000


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
    """Adds up what passes within its blocks."""

    def __init__(self) -> None:
        self.wall_s = self.processor_s = 0.0

    @contextmanager
    def measure(self) -> Iterator[None]:
        began_s, used_s = time.perf_counter(), _used_s()
        try:
            yield
        finally:
            self.wall_s += time.perf_counter() - began_s
            self.processor_s += _used_s() - used_s


def _used_s() -> float:
    """Return the processor time of this process and of all that it has started."""
    return time.process_time() + processor_s()


class MeteredLog:
    """A cluster's log; what its digests take is metered together."""

    def __init__(self, log: Any, meter: Meter) -> None:
        self._log, self._meter = log, meter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def digest(self, topic: str, spans: Sequence[Span]) -> Sum:
        found: Sum = self._log.digest(topic, spans)
        return found


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
