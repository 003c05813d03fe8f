"""Messages of the formats before record batches, on the wire: a live Apache Kafka and ours on the same log directory answer the same.

Fetch 0 to 3 are compared byte for byte; where a codec is at work its messages are, since compressors differ. Produce 0 to 2 are compared by
what lies in the log afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.errors import ErrorCode
from kafkalite.local.broker_process import BROKER_COMMAND, BrokerProcess, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.local.ports import ReservedPort
from kafkalite.net.blocking_request import exchange
from kafkalite.net.frames import request_frame, response_body_position
from kafkalite.portions import in_one_go
from kafkalite.protocol import codec, messages
from kafkalite.protocol.messages import Message
from kafkalite.protocol.record_batches.compression import Codec
from kafkalite.protocol.record_batches.down_conversion import conversion
from kafkalite.protocol.record_batches.legacy_messages import to_record_batch
from kafkalite.protocol.record_batches.records import BatchHeader, NewRecord, build_batch, decode_records, iter_batches
from tests.peers import apache_kafka
from tests.peers.old_requests import FETCHES
from tests.unit.protocol.record_batches.test_down_conversion import entries
from tests.wire.conftest import wait_until_led

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]

TIME: Final = 1_700_000_000_000
SETTINGS: Final = {
    "log.retention.ms": "-1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "zookeeper.session.timeout.ms": "3000",
}
CONFIGS: Final[Mapping[str, dict[str, str]]] = {
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "refused": {"message.downconversion.enable": "false"},
    "zstd-topic": {"compression.type": "zstd"},
}


def varied(count: int) -> list[NewRecord]:
    return [
        NewRecord(b"k%d" % n if n % 3 else None, b"v" * n if n % 7 else None, TIME + 90 * n, [("h", b"x")] * (n % 2))
        for n in range(count)
    ]


BATCHES: Final[Mapping[str, list[tuple[list[NewRecord], Codec]]]] = {
    "plain": [
        ([NewRecord(None, b"a" * 10, TIME)], Codec.NONE),
        ([NewRecord(b"k", b"", -1)], Codec.NONE),
        (varied(20), Codec.NONE),
        ([NewRecord(b"k", bytes(300), TIME)], Codec.NONE),
    ],
    "append-time": [(varied(3), Codec.NONE), (varied(30), Codec.GZIP)],
    "gzip": [(varied(30), Codec.GZIP), (varied(40), Codec.GZIP)],
    "snappy": [(varied(30), Codec.SNAPPY), (varied(40), Codec.SNAPPY)],
    "lz4": [(varied(30), Codec.LZ4), (varied(40), Codec.LZ4)],
    "zstd": [(varied(1), Codec.NONE), (varied(30), Codec.ZSTD)],
    "refused": [(varied(2), Codec.NONE)],
    "zstd-topic": [(varied(2), Codec.NONE)],
    "empty": [],
}
OFFSETS: Final = (0, 1, 5, 22, 35, 1000)


def message_set(records: list[NewRecord], magic: int, codec: Codec = Codec.NONE) -> bytes:
    return b"".join(entries(in_one_go(conversion(build_batch(records, codec=codec), magic, 0))))


def damaged(message: bytes) -> bytes:
    return message[:-1] + bytes((message[-1] ^ 1,))


SETS: Final[Mapping[str, tuple[int, bytes]]] = {
    "magic-0": (0, message_set(varied(5), 0)),
    "magic-0-in-2": (2, message_set(varied(5), 0)),
    "magic-1": (2, message_set(varied(5), 1)),
    "no-timestamps": (2, message_set([NewRecord(b"k", b"v", -1)] * 3, 1)),
    "gzip-0": (0, message_set(varied(9), 0, Codec.GZIP)),
    "gzip-1": (2, message_set(varied(9), 1, Codec.GZIP)),
    "snappy-0": (1, message_set(varied(9), 0, Codec.SNAPPY)),
    "snappy-1": (2, message_set(varied(9), 1, Codec.SNAPPY)),
    "lz4-0": (1, message_set(varied(9), 0, Codec.LZ4)),
    "lz4-1": (2, message_set(varied(9), 1, Codec.LZ4)),
    "cut": (2, message_set(varied(5), 1)[:-3]),
    "damaged": (2, damaged(message_set(varied(2), 1))),
    "append-time": (2, message_set(varied(4), 1)),
    "append-time-gzip": (2, message_set(varied(4), 1, Codec.GZIP)),
}


class Peer:
    """One broker, now Apache Kafka's and now ours."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self.host, self.port = host, int(port)

    def ask(self, request: Message, version: int) -> bytes:
        """The body of the answer."""
        api = request.API
        frame = request_frame(api, version, 1, "old", codec.encode_request(request, version))
        answer = exchange(self.host, self.port, frame, lambda: 30)
        return answer[response_body_position(api, version, answer) :]

    def produce(self, topic: str, records: bytes, version: int) -> tuple[int, int]:
        """(error code, base offset)."""
        m = messages.produce_request
        data = m.PartitionProduceData(index=0, records=records)
        request = m.ProduceRequest(
            acks=1, timeout_ms=30_000, topic_data=[m.TopicProduceData(name=topic, partition_data=[data])]
        )
        response: Any = codec.decode_response(0, version, self.ask(request, version), 0)
        answer = response.responses[0].partition_responses[0]
        return answer.error_code, answer.base_offset

    def fetch(self, topic: str, offset: int, max_bytes: int, version: int) -> bytes:
        m = messages.fetch_request
        asked = m.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
        request = m.FetchRequest(
            replica_id=-1, max_wait_ms=0, min_bytes=1, topics=[m.FetchTopic(topic=topic, partitions=[asked])]
        )
        return self.ask(request, version)

    def answers(self) -> dict[tuple[str, int, int, int], bytes]:
        return {
            (topic, offset, max_bytes, version): self.fetch(topic, offset, max_bytes, version)
            for topic in (*BATCHES, "transactions", "unknown")
            for offset in OFFSETS
            for max_bytes in (20, 1500)
            for version in FETCHES
        }


def partition_of(body: bytes, version: int) -> Any:
    (topic,) = codec.decode_response(1, version, body, 0).responses  # type: ignore[attr-defined]
    return topic.partitions[0]


def told(data: Any) -> tuple[Any, ...]:
    """What an answer says, with its messages read."""
    found = []
    for entry in entries(bytes(data.records or b"")):
        batch = to_record_batch(entry)
        records = [each[1:4] for each in decode_records(batch, BatchHeader.read(batch))]
        found.append((entry[:8], entry[16:18], records))
    return data.error_code, data.high_watermark, found


def differs_on_purpose(ours: Any, apache: Any, version: int) -> bool:
    """Listed in decisions/old-message-formats.md: batches larger than requested, markers alone; no null in errors."""
    if apache.error_code:
        return bool(ours.error_code == apache.error_code and not ours.records and not apache.records)
    if version < 3 and not apache.records:
        return bool(ours.records or ours.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return len(apache.records or b"") == 12 and not ours.records


def in_the_log(batches: bytes) -> list[tuple[Any, ...]]:
    """What consumers see of batches; where the broker chose times, only that."""
    found = []
    for header in iter_batches(batches):
        records = [
            (each.key, each.value, "now" if header.uses_log_append_time else each.timestamp)
            for each in decode_records(batches, header)
        ]
        found.append((header.base_offset, header.attributes, header.last_offset_delta, records))
    return found


def write(peer: Peer) -> None:
    for topic, batches in BATCHES.items():
        for records, used in batches:
            assert peer.produce(topic, bytes(build_batch(records, codec=used)), 7)[0] == 0
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": f"{peer.host}:{peer.port}", "transactional.id": "old-messages"}
    )
    producer.init_transactions(60)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for number in range(3):
            producer.produce("transactions", b"%d" % number)
        producer.flush(30)
        end(60)


def write_sets(peer: Peer, who: str) -> dict[str, tuple[tuple[int, int], list[tuple[Any, ...]]]]:
    found = {}
    for name, (version, content) in SETS.items():
        outcomes = [peer.produce(f"{name}-{who}", content, version) for _ in range(2)]
        batches = bytes(partition_of(peer.fetch(f"{name}-{who}", 0, 1 << 20, 4), 4).records or b"")
        found[name] = outcomes[-1], in_the_log(batches)
    return found


def create(address: str) -> list[str]:
    admin = AdminClient({"bootstrap.servers": address})
    topics = [NewTopic(name, 1, 1, config=dict(CONFIGS.get(name, {}))) for name in (*BATCHES, "transactions")]
    for name in SETS:
        config = CONFIGS["append-time"] if name.startswith("append-time") else {}
        topics += [NewTopic(f"{name}-{who}", 1, 1, config=dict(config)) for who in ("apache", "ours")]
    for future in admin.create_topics(topics, request_timeout=60).values():
        future.result(60)
    return [topic.topic for topic in topics]


def test_both_answer_the_same_from_the_same_log_directory(tmp_path: Path) -> None:
    apache_kafka.fetch()
    port = ReservedPort()
    with LocalCluster(brokers=0, directory=tmp_path) as cluster, ClusterFacts(cluster.zookeeper_connect) as facts:
        settings = SETTINGS | {"zookeeper.connect": cluster.zookeeper_connect}
        topics: list[str] = []

        def with_broker(command: list[str], act: Callable[[Peer], Any]) -> Any:
            broker = BrokerProcess(1, tmp_path, settings, command, port.number)
            try:
                broker.start()
                broker.wait_started(90)
                apache_kafka.wait_for_controller(broker.address)
                if not topics:
                    topics.extend(create(broker.address))
                for topic in topics:
                    wait_until_led(broker.address, topic, 1)
                found = act(Peer(broker.address))
                assert broker.stop() in (0, 143)
                wait_until(lambda: not facts.brokers(), "the end of the broker's session", 30)
                return found
            finally:
                broker.close()

        def by_apache(peer: Peer) -> Any:
            write(peer)
            return peer.answers(), write_sets(peer, "apache")

        def by_ours(peer: Peer) -> Any:
            return peer.answers(), write_sets(peer, "ours")

        apache_answers, apache_sets = with_broker(apache_kafka.broker_command(), by_apache)
        our_answers, our_sets = with_broker(list(BROKER_COMMAND), by_ours)
    port.release()
    same = 0
    for asked, expected in apache_answers.items():
        version = asked[-1]
        if our_answers[asked] == expected:
            same += 1
            continue
        ours, theirs = partition_of(our_answers[asked], version), partition_of(expected, version)
        assert told(ours) == told(theirs) or differs_on_purpose(ours, theirs, version), asked
        assert asked[0] != "plain" or theirs.error_code or differs_on_purpose(ours, theirs, version), asked
    assert same > len(apache_answers) / 3
    assert our_sets == apache_sets
