"""What one client writes, another reads, byte for byte: every client, every acks, every codec."""

from __future__ import annotations

import random
import time

import pytest

from tests.wire.clients import CLIENTS, CODECS, Client, Read, Record
from tests.wire.conftest import TopicMaker

pytestmark = pytest.mark.wire

ACKS = ("0", "1", "all")
CASES = [
    # The reader is another client each time, so that over all cases every pair occurs.
    pytest.param(writer, CLIENTS[(place + 1 + (codec_place + acks_place) % 3) % 4], acks, codec)
    for place, writer in enumerate(CLIENTS)
    for acks_place, acks in enumerate(ACKS)
    for codec_place, codec in enumerate(CODECS)
]


def records_for(writer: Client, reader: Client) -> list[Record]:
    now_ms = int(time.time() * 1000)
    plain = [
        Record(b"key", b"value", (("name", b"first"), ("name", b"second"))),
        Record(None, b"without a key"),
        Record(b"without a value", None),
        Record(b"text", "Grüße, 世界".encode()),
        Record(b"large", b"0123456789" * 20_000),
        Record(b"binary", bytes(range(256)) * 8),
    ]
    if not (writer.free_form and reader.free_form):
        return plain
    noise = random.Random(1)
    return [
        *plain,
        Record(b"", b"", (("empty", b""), ("ünï", bytes(range(256)))), now_ms - 60_000),
        *([Record(b"k", b"v", (("null", None),), now_ms - 60_000)] if writer.null_headers else []),
        Record(bytes(range(256)), noise.randbytes(50_000), (), now_ms - 59_999),
        *(Record(noise.randbytes(8), noise.randbytes(index), (), now_ms - 1000 + index) for index in range(300)),
    ]


def check_same(sent: list[Record], read: list[Read], began_ms: int) -> None:
    assert [each.offset for each in read] == list(range(len(sent)))
    for wanted, got in zip(sent, read, strict=True):
        assert (got.key, got.value, got.headers) == (wanted.key, wanted.value, wanted.headers)
        if wanted.timestamp_ms is not None:
            assert got.timestamp_ms == wanted.timestamp_ms
        else:
            assert began_ms <= got.timestamp_ms <= time.time() * 1000


@pytest.mark.parametrize(("writer", "reader", "acks", "codec"), CASES, ids=lambda value: getattr(value, "name", value))
def test_another_client_reads_what_was_written(
    servers: str, make_topic: TopicMaker, writer: Client, reader: Client, acks: str, codec: str
) -> None:
    topic = make_topic()
    sent = records_for(writer, reader)
    began_ms = int(time.time() * 1000)
    writer.produce(servers, topic, sent, acks=acks, codec=codec)
    check_same(sent, reader.consume(servers, topic, len(sent)), began_ms)


@pytest.mark.parametrize("reader", CLIENTS, ids=lambda client: client.name)
def test_a_reader_can_begin_in_the_middle_of_a_compressed_batch(
    servers: str, make_topic: TopicMaker, reader: Client
) -> None:
    topic = make_topic()
    CLIENTS[0].produce(servers, topic, [Record(b"%d" % n, b"x" * 100) for n in range(50)], codec="zstd")
    read = reader.consume(servers, topic, 13, offset=37)
    assert [(each.offset, each.key) for each in read] == [(n, b"%d" % n) for n in range(37, 50)]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
@pytest.mark.parametrize("place", range(3))
def test_each_broker_alone_leads_a_client_to_all_partitions(
    servers: str, make_topic: TopicMaker, client: Client, place: int
) -> None:
    topic = make_topic(partitions=3)
    alone = servers.split(",")[place]
    client.produce(alone, topic, [Record(b"k", b"v")])
    assert client.consume(alone, topic, 1)[0].value == b"v"


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
def test_a_topic_can_have_its_own_codec(servers: str, make_topic: TopicMaker, codec: str) -> None:
    topic = make_topic(config={"compression.type": codec})
    sent = [Record(b"%d" % n, b"y" * 100) for n in range(100)]
    CLIENTS[0].produce(servers, topic, sent, codec="gzip")
    read = CLIENTS[2].consume(servers, topic, len(sent))
    assert [(each.offset, each.key, each.value) for each in read] == [(n, b"%d" % n, b"y" * 100) for n in range(100)]


def test_a_topic_can_stamp_records_with_the_brokers_time(servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic(config={"message.timestamp.type": "LogAppendTime"})
    began_ms = int(time.time() * 1000)
    CLIENTS[0].produce(servers, topic, [Record(b"k", b"v", (), began_ms - 1_000_000)])
    for reader in CLIENTS:
        (read,) = reader.consume(servers, topic, 1)
        assert began_ms <= read.timestamp_ms <= time.time() * 1000, reader.name
