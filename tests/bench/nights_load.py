"""The records of a large night: how many each partition has, when they are, and the program that sends a share of them.

`python -m tests.bench.nights_load SERVERS TOPIC LOAD NUMBER OF` sends what falls to one of several processes; LOAD is JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import Final

import confluent_kafka

FIRST_DAY: Final = date(2013, 6, 15)
LARGE_PARTITION: Final = 1
"""Its records are ten times as large, where there are several partitions."""
_DAY_MS: Final = 86_400_000
_VALUES: Final = 1000
_TURN: Final = 1000
_PATIENCE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Load:
    """`records` in `partitions`, of which the first has the share `skew`, over `days` from FIRST_DAY on; values of `value_bytes`."""

    records: int
    partitions: int
    skew: float = 0.3
    days: int = 1
    value_bytes: int = 100
    compression: str = "lz4"

    def counts(self) -> list[int]:
        """Return how many records each partition has."""
        if self.partitions == 1:
            return [self.records]
        first = round(self.records * max(self.skew, 1 / self.partitions))
        left, others = self.records - first, self.partitions - 1
        return [first, *(left * (number + 1) // others - left * number // others for number in range(others))]

    def value_size(self, partition: int) -> int:
        """Return the bytes of a value."""
        return self.value_bytes * (10 if partition == LARGE_PARTITION else 1)

    def time_ms(self, number: int, count: int) -> int:
        """Return the time of one of `count` records of a partition: in order, and spread over the days."""
        begin = int(datetime(FIRST_DAY.year, FIRST_DAY.month, FIRST_DAY.day, tzinfo=UTC).timestamp()) * 1000
        return begin + self.days * _DAY_MS * number // count


def share_partitions(counts: list[int], processes: int) -> list[list[int]]:
    """Return the partitions of each process, so that all have about as many records."""
    shares: list[list[int]] = [[] for _ in range(processes)]
    sums = [0] * processes
    for partition in sorted(range(len(counts)), key=lambda each: (-counts[each], each)):
        least = sums.index(min(sums))
        shares[least].append(partition)
        sums[least] += counts[partition]
    return [sorted(share) for share in shares]


def list_turns(counts: list[int], share: list[int], turn: int = _TURN) -> Iterator[tuple[int, range]]:
    """Yield partitions with the numbers of records that follow, all partitions of the share at the same pace."""
    most = max((counts[each] for each in share), default=0)
    rounds = -(-most // turn)
    for number in range(rounds):
        for partition in share:
            count = counts[partition]
            part = range(count * number // rounds, count * (number + 1) // rounds)
            if part:
                yield partition, part


def send_share(servers: str, topic: str, load: Load, number: int, processes: int) -> None:
    """Send the records of one of the processes; RuntimeError when some are not acknowledged."""
    counts = load.counts()
    values = {size: [os.urandom(size // 2).hex().encode() for _ in range(_VALUES)] for size in _sizes(load)}
    settings = {
        "bootstrap.servers": servers,
        "acks": "all",
        "linger.ms": 50,
        "batch.size": 1 << 18,
        "compression.type": load.compression,
        "queue.buffering.max.messages": 500_000,
        "queue.buffering.max.kbytes": 256 * 1024,
    }
    producer = confluent_kafka.Producer(settings)
    for partition, part in list_turns(counts, share_partitions(counts, processes)[number]):
        some, count = values[load.value_size(partition)], counts[partition]
        for each in part:
            while True:
                try:
                    producer.produce(
                        topic, some[each % _VALUES], b"%010d" % each, partition, timestamp=load.time_ms(each, count)
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    if left := producer.flush(_PATIENCE_S):
        raise RuntimeError(f"{left} records of {topic} were not acknowledged within {_PATIENCE_S:g} s")


def send_all(servers: str, topic: str, load: Load, processes: int) -> None:
    """Send the records with some processes at once."""
    command = [sys.executable, "-m", "tests.bench.nights_load", servers, topic, json.dumps(asdict(load))]
    running = [subprocess.Popen([*command, str(number), str(processes)]) for number in range(processes)]
    try:
        codes = [each.wait() for each in running]
    finally:
        for each in running:
            each.kill()
    if any(codes):
        raise RuntimeError(f"the senders ended with {codes}")


def _sizes(load: Load) -> set[int]:
    return {load.value_size(partition) for partition in range(load.partitions)}


if __name__ == "__main__":
    servers_given, topic_given, load_given, number_given, processes_given = sys.argv[1:]
    send_share(servers_given, topic_given, Load(**json.loads(load_given)), int(number_given), int(processes_given))
