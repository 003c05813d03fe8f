"""`kafkalite record digest` against live brokers: what a foreign client reads has the digest that brokers give of it.

With `--apache` the brokers do not know the request, and the command reads the records.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pyarrow
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from kafkalite.cli.main import main
from kafkalite.local.broker_process import BROKER_COMMAND
from kafkalite.net.connection import Connection
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches.record_digest import hash_record
from spark_jobs.batch.cluster_log import ClusterLog
from spark_jobs.batch.ledger import Entry, Ledger, PartFile, Unit
from spark_jobs.batch.plan import RunPlan
from spark_jobs.batch.proof import BUCKET_OFFSETS, make_buckets, spans_of
from spark_jobs.batch.storage import LocalStorage
from spark_jobs.batch.window import time_zone
from spark_jobs.jobs import verify
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


DAY_MS: Final = 1_371_254_400_000
"""Midnight before 2013-06-15, UTC."""


def test_a_ledger_proves_what_was_archived_of_a_day(servers: str, make_topic: TopicMaker, tmp_path: Path) -> None:
    """Records of several days lie in turns; brokers digest those of one of them, and tell at which offset a row is missing."""
    topic = make_topic(2)
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "acks": "all", "compression.type": "lz4"})
    for number in range(600):
        time_ms = DAY_MS + (number * 37 % 72 - 24) * 3_600_000
        producer.produce(topic, b"value %d" % number, b"k%d" % (number % 9), number % 2, timestamp=time_ms)
    assert producer.flush(TIMEOUT_S) == 0
    with ClusterLog({"bootstrap.servers": servers}) as log:
        bounds = log.bounds(topic)
        ranges = {partition: (3, end) for partition, end in bounds.end.items()}
        undated = {partition: (each,) for partition, each in ranges.items()}
        plan = RunPlan(topic, bounds.topic_id, date(2013, 6, 15), ranges, dict(bounds.end), undated=undated)
        rows = [each for partition in ranges for each in read(servers, topic, partition, bounds.end[partition])]
        wanted = [
            each for each in rows if each.offset() >= 3 and DAY_MS <= each.timestamp()[1] < DAY_MS + 24 * 3_600_000
        ]
        assert 150 < len(wanted) < 250
        buckets = make_buckets(log.digest_parts(topic, spans_of(plan, time_zone("UTC")), BUCKET_OFFSETS))
        assert sum(each.records for each in buckets) == len(wanted)
        storage = LocalStorage(tmp_path)
        for kept, problems in ((wanted, []), ([*wanted[:70], *wanted[71:]], [wanted[70]])):
            _write_rows(tmp_path / "archive" / "a.parquet", kept)
            file = PartFile("a.parquet", (tmp_path / "archive" / "a.parquet").stat().st_size, len(kept), "")
            unit = Unit("archive", "", "2013-06-15", (file,), "")
            Ledger(storage, "archive").finish(
                Entry("archive", plan, "planned", "x", (unit,), zone="UTC", digests=tuple(buckets)), 1
            )
            (found,) = verify.main(storage, log, [topic], [plan.date], None)
            assert [(each.place, each.problem) for each in found.findings] == [
                (f"{topic}-{each.partition()}", f"offset {each.offset()} is missing") for each in problems
            ]
            assert found.in_log == len(wanted)


def _write_rows(path: Path, rows: Sequence[Any]) -> None:
    """Write records as an archive has them."""
    path.parent.mkdir(exist_ok=True)
    headers = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
    times = pyarrow.array([each.timestamp()[1] * 1000 for each in rows], pyarrow.timestamp("us", tz="UTC"))
    columns = {
        "key": pyarrow.array([each.key() for each in rows], pyarrow.binary()),
        "value": pyarrow.array([each.value() for each in rows], pyarrow.binary()),
        "partition": pyarrow.array([each.partition() for each in rows], pyarrow.int32()),
        "offset": pyarrow.array([each.offset() for each in rows], pyarrow.int64()),
        "timestamp": times,
        "headers": pyarrow.array([None for _ in rows], headers),
    }
    parquet.write_table(pyarrow.table(columns), path)
