"""`kafkalite record digest` against live brokers: what a foreign client reads has the digest that brokers give of it.

With `--apache` the brokers do not know the request, and the command reads the records.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import confluent_kafka
import pytest
from click.testing import CliRunner

from kafkalite.cli.main import main
from kafkalite.local.broker_process import BROKER_COMMAND
from kafkalite.net.connection import Connection
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches.record_digest import hash_record
from tests.wire.conftest import TopicMaker

pytestmark = pytest.mark.wire

TIMEOUT_S: Final = 60
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def produce(servers: str, topic: str) -> None:
    """Records of each codec within transactions, every third of which is aborted, and some outside of them."""
    for number, codec in enumerate(CODECS):
        settings = {"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 50}
        producer = confluent_kafka.Producer({**settings, "transactional.id": f"{topic}-{codec}"})
        producer.init_transactions(TIMEOUT_S)
        for transaction in range(3):
            producer.begin_transaction()
            for each in range(40):
                headers = [("h", b"x"), ("null", None)] if each % 5 == 0 else None
                key = None if each % 7 == 0 else b"k%d" % each
                producer.produce(
                    topic, b"%d-%d" % (number, each) * 9, key, each % 2, headers=headers, timestamp=1000 + each
                )
            if transaction == 1:
                producer.abort_transaction(TIMEOUT_S)
            else:
                producer.commit_transaction(TIMEOUT_S)
    plain = confluent_kafka.Producer({"bootstrap.servers": servers, "acks": "all"})
    plain.produce(topic, None, b"tombstone", 0)
    assert plain.flush(TIMEOUT_S) == 0


def read(servers: str, topic: str, partition: int, end: int) -> list[Any]:
    """The committed records of a partition, as librdkafka reads them."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "unused", "enable.partition.eof": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
    found = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, "nothing came for too long"
        if message.error() is not None:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
            consumer.close()
            return [each for each in found if each.offset() < end]
        found.append(message)


def digests(servers: str, topic: str, *options: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(main, ["record", "digest", topic, "-b", servers, "-o", "json", *options])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_what_a_foreign_client_reads_has_that_digest(
    servers: str, make_topic: TopicMaker, broker_command: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(2, config={"segment.bytes": "16384"})
    produce(servers, topic)
    found = digests(servers, topic)
    for row in found:
        records = read(servers, topic, row["partition"], row["to"])
        total = sum(
            hash_record(each.offset(), each.timestamp()[1], each.key(), each.value(), each.headers() or ())
            for each in records
        )
        assert (row["records"], row["fingerprint"]) == (len(records), f"{total % (1 << 128):032x}")
        assert (row["first_offset"], row["last_offset"]) == (records[0].offset(), records[-1].offset())
    assert sum(row["records"] for row in found) == 2 * 40 * len(CODECS) + 1
    assert digests(servers, topic) == digests(servers, topic, "--fresh") == found
    is_asked = broker_command == BROKER_COMMAND
    monkeypatch.setattr(Connection, "version_of", _without_ours(Connection.version_of, is_asked))
    assert digests(servers, topic) == found


def _without_ours(version_of: Any, is_known: bool) -> Any:
    asked = []

    def version_to_others(self: Connection, api_key: int, **options: Any) -> int:
        if api_key == ApiKey.DIGEST_RECORDS:
            asked.append(api_key in self.versions)
            assert asked[-1] is is_known
            raise ValueError("brokers of Apache Kafka do not know it")
        return version_of(self, api_key, **options)  # type: ignore[no-any-return]

    return version_to_others
