"""One frame of a stranger, as large as it may be: how long another client waits meanwhile, and what memory the broker takes.

The other client asks ApiVersions each 10 ms. Every array of every request, in the newest version, is tried with --long.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from kafkalite.client import NewTopic, SyncAdmin
from kafkalite.local.broker_process import BrokerProcess
from kafkalite.local.cluster import LocalCluster
from kafkalite.net.frames import request_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey, request_header_version
from kafkalite.protocol.bounds import BROKERS_MEMORY_FACTOR
from kafkalite.protocol.record_batches.compression import Codec, compress
from kafkalite.protocol.record_batches.python_records import encode_record
from kafkalite.protocol.record_batches.records import assemble_batch
from kafkalite.protocol.schemas.writer_source import uvarint
from tests.case import case
from tests.fuzz import live
from tests.fuzz.beside import ClientBeside, ask_api_versions, await_answer, forget_peak, peak_bytes
from tests.unit.protocol.hostile_frames import arrays, body_with_many

pytestmark = [pytest.mark.system, pytest.mark.timing, pytest.mark.timeout(900)]

WAIT_S: Final = 0.1
MEMORY_BYTES: Final = 64 * 1024 * 1024
TRIES: Final = 3
"""The machine itself may pause; a broker that is held is held each time."""
LONG_FRAME_BYTES: Final = 8 * 1024 * 1024
FUZZED: Final = 400


class Hostile(NamedTuple):
    """A request of `count` of the shortest items in one array; of an empty path: of tagged fields in the header."""

    key: ApiKey
    version: int
    path: tuple[str, ...]
    count: int

    def __str__(self) -> str:
        return f"{APIS[self.key].name} {self.version}: {self.count:,} × {'.'.join(self.path) or 'header tags'}"

    def frame(self) -> bytes:
        header_version = request_header_version(APIS[self.key], self.version)
        header = struct.pack(">hhih", self.key, self.version, 7, -1)
        if not self.path:
            return header + uvarint(self.count) + b"\x00\x00" * self.count
        body = body_with_many(messages.schema(APIS[self.key], "request", self.version), self.path, self.count)
        return header + (b"\x00" if header_version >= 2 else b"") + body


class Bomb(NamedTuple):
    """A produced batch of the default max.message.bytes at most, which becomes `plain_bytes` of one record or of many."""

    codec: Codec
    plain_bytes: int
    records: int

    def __str__(self) -> str:
        return f"a bomb in {self.codec.name}: {self.records:,} records in {self.plain_bytes:,} bytes"

    def frame(self) -> bytes:
        m, size = messages.produce_request, self.plain_bytes // self.records
        plain = b"".join(encode_record(0, number, None, bytes(size - 16)) for number in range(self.records))
        batch = assemble_batch(
            compress(self.codec, plain),
            records_count=self.records,
            last_offset_delta=self.records - 1,
            base_timestamp=0,
            max_timestamp=0,
            base_offset=0,
            leader_epoch=-1,
            attributes=self.codec,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
        )
        data = [m.TopicProduceData(name=BOMBED, partition_data=[m.PartitionProduceData(index=0, records=batch)])]
        body = codec.encode_request(m.ProduceRequest(acks=1, timeout_ms=60_000, topic_data=data), 9)
        return b"".join(request_frame(APIS[ApiKey.PRODUCE], 9, 7, None, body))[4:]


BETWEEN_BROKERS: Final = (
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.ALTER_PARTITION,
)
BOMBED: Final = "bombed"
_MIB: Final = 1024 * 1024
BOMBS: Final = (
    *(Bomb(each, 99 * _MIB, count) for each in (Codec.GZIP, Codec.LZ4, Codec.ZSTD) for count in (1, 20)),
    *(Bomb(Codec.SNAPPY, 20 * _MIB, count) for count in (1, 20)),
    Bomb(Codec.ZSTD, 60 * _MIB, 600_000),
)
"""Snappy makes at most a twentieth of anything."""


REFUSED: Final = (
    Hostile(ApiKey.API_VERSIONS, 3, (), 20_000_000),
    Hostile(ApiKey.METADATA, 1, ("topics",), 10_000_000),
    Hostile(ApiKey.METADATA, 12, ("topics",), 3_000_000),
    Hostile(ApiKey.PRODUCE, 7, ("topic_data",), 2_000_000),
    Hostile(ApiKey.OFFSET_FETCH, 5, ("topics", "partition_indexes"), 4_000_000),
    Hostile(ApiKey.CREATE_TOPICS, 4, ("topics",), 500_000),
    Hostile(ApiKey.DESCRIBE_CONFIGS, 2, ("resources",), 1_000_000),
    Hostile(ApiKey.JOIN_GROUP, 5, ("protocols",), 1_000_000),
)
"""Each held a broker without bounds for seconds to minutes."""
SERVED: Final = tuple(
    each._replace(count=100_000)
    for each in (*REFUSED[1:], Hostile(ApiKey.LIST_OFFSETS, 7, ("topics", "partitions"), 0))
)
"""Somebody may mean it."""


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with LocalCluster(brokers=1) as cluster:
        yield cluster.broker(1)


def send(broker: BrokerProcess, frame: bytes) -> bool:
    """Send a frame on a connection that was answered before; was this one answered?"""
    with socket.create_connection((broker.host, broker.port), timeout=120) as connection:
        ask_api_versions(connection)
        try:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
        except ConnectionError:
            return False
        return await_answer(connection)


class Cost(NamedTuple):
    """What a frame cost a broker: how long another client had to wait at most, by the broker's processor time and by the clock."""

    held_s: float
    waited_s: float
    grown_bytes: int
    answered: bool


def cost_of(broker: BrokerProcess, frame: bytes) -> Cost:
    """Send the frame while another client asks."""
    other = ClientBeside(broker)
    other.start()
    other.wait_answers(3)
    other.forget()
    before = broker.resident_bytes()
    forget_peak(broker)
    answered = send(broker, frame)
    other.wait_answers(3)
    other.end()
    return Cost(other.longest_held.held_s, other.longest.waited_s, peak_bytes(broker) - before, answered)


def check(broker: BrokerProcess, hostile: Hostile | Bomb, *, is_served: bool | None) -> None:
    """The other client waits 0.1 s at most, and memory grows by less than two frames and 64 MiB, of a bomb by twice what it becomes."""
    frame, waits = hostile.frame(), []
    allowed_bytes = MEMORY_BYTES + 2 * (hostile.plain_bytes if isinstance(hostile, Bomb) else len(frame))
    if isinstance(hostile, Hostile) and hostile.key in BETWEEN_BROKERS:
        allowed_bytes += BROKERS_MEMORY_FACTOR * len(frame)
    for _ in range(TRIES):
        cost = cost_of(broker, frame)
        waits.append(cost.waited_s)
        print(f"{hostile}: {len(frame) / 1e6:.0f} MB, {cost}")
        assert is_served in (None, cost.answered)
        assert cost.grown_bytes < allowed_bytes
        if waits[-1] <= WAIT_S:
            return
    raise AssertionError(f"the other client waited {waits}")


def test_what_is_refused_is_refused_at_once(broker: BrokerProcess) -> None:
    for each in REFUSED:
        with case(str(each)):
            check(broker, each, is_served=False)


def test_what_somebody_may_mean_is_served_while_others_are(broker: BrokerProcess) -> None:
    for each in SERVED:
        with case(str(each)):
            check(broker, each, is_served=None)


def test_compressed_records_that_become_very_many_bytes(broker: BrokerProcess) -> None:
    with SyncAdmin(bootstrap_servers=f"{broker.host}:{broker.port}") as admin:
        admin.create_topics([NewTopic(BOMBED, 1)])
    for each in BOMBS:
        with case(str(each)):
            check(broker, each, is_served=True)


def test_every_array_of_every_request(broker: BrokerProcess, long: bool) -> None:
    keys = [ApiKey(each.key) for each in APIS.values()] if long else [ApiKey.DELETE_TOPICS, ApiKey.FETCH]
    for key in keys:
        version = APIS[key].max_version
        for path in arrays(messages.schema(APIS[key], "request", version)):
            one = len(Hostile(key, version, path, 1).frame()) - len(Hostile(key, version, path, 0).frame())
            hostile = Hostile(key, version, path, LONG_FRAME_BYTES // max(1, one))
            with case(str(hostile)):
                check(broker, hostile, is_served=None)


def test_frames_of_a_fuzzer(long: bool) -> None:
    """The same ones each time; more with `python -m tests.fuzz --live`. Some are a controller's, and obeyed."""
    with LocalCluster(brokers=1) as cluster:
        report = live.run(cluster.broker(1), 50 * FUZZED if long else FUZZED, seed=1)
    print(report)
    assert not report.findings
