"""Read the demo's topic back in a process of its own and judge it: `python -m deploy.examples.flights.check BOOTSTRAP TOPIC`.

Each record carries its number among the records of its key in the header `sequence` (eight bytes, big-endian). Of each key's records every
number must come once and in order; records without a key may come in any order between partitions, but each once. The sum of CRC-32C over
all keys and values must be the publisher's. One JSON line on stdout has the findings.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import struct
import sys
from dataclasses import dataclass, field

import uvloop
from crc32c import crc32c

from kafkalite.client.consumer.consumer import Consumer
from kafkalite.client.consumer_record import ConsumerRecord
from kafkalite.standard_streams import standard_streams
from kafkalite.types import TopicPartition

SEQUENCE_HEADER = "sequence"
SEQUENCE = struct.Struct(">q")
_SHOWN_PROBLEMS = 5
_IDLE_MS = 10_000.0


@dataclass(slots=True)
class Findings:
    """Totals of the records that were read, and the first few `problems`."""

    records: int = 0
    bytes: int = 0
    checksum: int = 0
    keys: int = 0
    null_keys: int = 0
    seconds: float = 0.0
    problem_count: int = 0
    problems: list[str] = field(default_factory=list)

    def add_problem(self, problem: str) -> None:
        self.problem_count += 1
        if len(self.problems) < _SHOWN_PROBLEMS:
            self.problems.append(problem)


class OrderJudge:
    """Checks the order of records, passed one by one to `check_record`; `finish` returns the findings."""

    def __init__(self) -> None:
        self.findings = Findings()
        self._next: dict[bytes, int] = {}
        self._partitions: dict[bytes, int] = {}
        self._null_numbers: set[int] = set()

    def check_record(self, record: ConsumerRecord) -> None:
        found = self.findings
        key, value = record.key, record.value
        found.records += 1
        found.bytes += len(value) + len(key or b"")
        found.checksum += record_checksum(key, value)
        (number,) = SEQUENCE.unpack(record.headers[0][1] or b"")
        if key is None:
            if number in self._null_numbers:
                found.add_problem(f"record {number} without a key came twice")
            self._null_numbers.add(number)
            return
        expected = self._next.get(key, 0)
        if number != expected:
            found.add_problem(f"key {key!r}: number {number} where {expected} was due (offset {record.offset})")
        self._next[key] = number + 1
        if self._partitions.setdefault(key, record.partition) != record.partition:
            found.add_problem(f"key {key!r} is in partitions {self._partitions[key]} and {record.partition}")

    def finish(self) -> Findings:
        found = self.findings
        found.keys, found.null_keys = len(self._next), len(self._null_numbers)
        if self._null_numbers and max(self._null_numbers) != len(self._null_numbers) - 1:
            found.add_problem("records without a key are missing")
        return found


def record_checksum(key: bytes | None, value: bytes) -> int:
    """Return what one record adds to the checksum of all."""
    return crc32c(value, crc32c(key)) if key is not None else crc32c(value)


async def check_topic(bootstrap_servers: str, topic: str) -> Findings:
    """Read the topic from its start to its end."""
    loop = asyncio.get_running_loop()
    judge = OrderJudge()
    async with Consumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(topic, number) for number in await consumer.partitions_for_topic(topic)]
        left = sum((await consumer.end_offsets(partitions)).values())
        started_s = loop.time()
        consumer.assign(partitions)
        while left > 0:
            found = await consumer.getmany(timeout_ms=_IDLE_MS, max_records=10_000)
            if not found:
                judge.findings.add_problem(f"{left} records did not come within {_IDLE_MS / 1000:g} s")
                break
            for records in found.values():
                left -= len(records)
                for record in records:
                    judge.check_record(record)
        judge.findings.seconds = loop.time() - started_s
    return judge.finish()


def main() -> None:
    bootstrap_servers, topic = sys.argv[1:]
    print(json.dumps(dataclasses.asdict(uvloop.run(check_topic(bootstrap_servers, topic)))), flush=True)


if __name__ == "__main__":
    with standard_streams():
        main()
