"""Our data source beside Spark's own Kafka connector: the same options on the same topics give equal DataFrames and errors.

All comparisons run in one Spark session (`spark_comparison`); each is a test of its own here. Topics are on a broker of ours, those
with transactions on Apache Kafka's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition

from kafkalite.client import NewTopic, SyncAdmin, SyncProducer, TopicPartition
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from tests.peers import apache_kafka, spark_connector

pytestmark = [pytest.mark.peer, pytest.mark.spark, pytest.mark.timeout(900)]

BASE_MS = int(time.time() * 1000) - 3_600_000
"""Within retention, and before anything that the tests write with the time of now."""

SIZES = {0: 400, 1: 90, 2: 7, 3: 0}
"""Records of the partitions of `events`, one for each second from BASE_MS on."""

CLEANER = {"log.cleaner.backoff.ms": "200", "log.retention.check.interval.ms": "600000"}
PROPERTIES = {"auto.create.topics.enable": "false", "offsets.topic.num.partitions": "1", **CLEANER}
APACHE = {
    "auto.create.topics.enable": "false",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}


def per_partition(value: Callable[[int], int], topic: str = "events") -> str:
    return json.dumps({topic: {str(each): value(each) for each in SIZES}})


def at(second: int) -> str:
    return str(BASE_MS + second * 1000)


SKIPPING = "lost records are skipped"
READS: dict[str, dict[str, str]] = {
    "everything": {"subscribe": "events"},
    "without headers": {"subscribe": "events", "includeHeaders": "false"},
    "earliest to latest": {"subscribe": "events", "startingOffsets": "earliest", "endingOffsets": "latest"},
    "two topics": {"subscribe": "events,stamped"},
    "a pattern": {"subscribePattern": "event.*"},
    "a pattern within the name": {"subscribePattern": "vent"},
    "a pattern without topics": {"subscribePattern": "nothing.*"},
    "assigned partitions": {"assign": '{"events": [0, 2], "stamped": [0]}'},
    "assigned partitions that do not exist": {"assign": '{"events": [1, 99]}'},
    "offsets": {
        "subscribe": "events",
        "startingOffsets": per_partition(lambda p: min(5, SIZES[p])),
        "endingOffsets": per_partition(lambda p: min(80, SIZES[p])),
    },
    "offsets by name": {
        "subscribe": "events",
        "startingOffsets": per_partition(lambda p: -2 if p % 2 else 3),
        "endingOffsets": per_partition(lambda p: -1 if p % 2 else 5),
    },
    "the end in front of the start of an empty range": {
        "assign": '{"events": [0]}',
        "startingOffsets": '{"events": {"0": 50}}',
        "endingOffsets": '{"events": {"0": 50}}',
    },
    "one time": {"assign": '{"events": [0, 1, 2]}', "startingTimestamp": at(2), "endingTimestamp": at(6)},
    "a time between records": {"assign": '{"events": [0]}', "startingTimestamp": str(BASE_MS + 2500)},
    "a time after the last record": {
        "subscribe": "events",
        "startingTimestamp": at(200),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "an end after the last record": {"subscribe": "events", "endingTimestamp": at(200)},
    "times": {
        "subscribe": "events",
        "startingOffsetsByTimestamp": per_partition(lambda p: BASE_MS + p * 1000),
        "endingOffsetsByTimestamp": per_partition(lambda p: BASE_MS + 50_000 + p * 1000),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "a time wins over times and offsets": {
        "subscribe": "events",
        "startingTimestamp": at(3),
        "startingOffsetsByTimestamp": per_partition(lambda p: BASE_MS),
        "startingOffsets": "earliest",
        "endingTimestamp": at(4),
        "endingOffsets": "latest",
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "offsets to a time": {
        "subscribe": "events",
        "startingOffsets": per_partition(lambda p: -2),
        "endingTimestamp": at(9),
    },
    "many tasks": {"subscribe": "events", "minPartitions": "9"},
    "fewer tasks than partitions": {"subscribe": "events", "minPartitions": "2"},
    "small tasks": {"subscribe": "events", "maxRecordsPerPartition": "60"},
    "many and small tasks": {"subscribe": "events", "maxRecordsPerPartition": "100", "minPartitions": "20"},
    "the broker's time": {"subscribe": "stamped"},
    "every codec": {"subscribe": "packed"},
    "what compaction left": {"subscribe": "compacted", "minPartitions": "5"},
    "a part of what compaction left": {
        "subscribe": "compacted",
        "startingOffsets": '{"compacted": {"0": 31}}',
        "endingOffsets": '{"compacted": {"0": 95}}',
        "maxRecordsPerPartition": "10",
    },
    "what retention left": {"subscribe": "trimmed"},
    SKIPPING: {
        "subscribe": "trimmed",
        "startingOffsets": '{"trimmed": {"0": 20}}',
        "failOnDataLoss": "false",
    },
    "a range of which nothing is left": {
        "subscribe": "trimmed",
        "startingOffsets": '{"trimmed": {"0": 20}}',
        "endingOffsets": '{"trimmed": {"0": 70}}',
        "failOnDataLoss": "false",
    },
    "nothing is lost": {
        "subscribe": "trimmed",
        "startingOffsets": '{"trimmed": {"0": 100}}',
        "failOnDataLoss": "true",
    },
    "behind the end, loss allowed": {
        "subscribe": "trimmed",
        "startingOffsets": '{"trimmed": {"0": 150}}',
        "endingOffsets": '{"trimmed": {"0": 300}}',
        "kafkaConsumer.pollTimeoutMs": "1500",
        "failOnDataLoss": "false",
    },
}
OURS_ALONE: dict[str, dict[str, str]] = {
    f"{SKIPPING} in many tasks": {
        "subscribe": "trimmed",
        "startingOffsets": '{"trimmed": {"0": 20}}',
        "failOnDataLoss": "false",
        "minPartitions": "12",
    },
}
"""Where Spark 4.0.0 fails: two of its tasks meet in one consumer, which is not made for that."""
TRANSACTIONAL_READS: dict[str, dict[str, str]] = {
    "uncommitted": {"subscribe": "ledger"},
    "committed": {"subscribe": "ledger", "kafka.isolation.level": "read_committed"},
    "committed, in many tasks": {
        "subscribe": "ledger",
        "kafka.isolation.level": "read_committed",
        "maxRecordsPerPartition": "3",
    },
    "only what was aborted": {
        "assign": '{"ledger": [0]}',
        "kafka.isolation.level": "read_committed",
        "startingOffsets": '{"ledger": {"0": 11}}',
        "endingOffsets": '{"ledger": {"0": 22}}',
    },
}
ERRORS: dict[str, tuple[dict[str, str], str] | tuple[dict[str, str], str, str]] = {
    "no choice": ({}, "One of the following options must be specified for Kafka source: "),
    "two choices": (
        {"subscribe": "events", "assign": '{"events": [0]}'},
        "Only one of the following options can be specified for Kafka source: ",
    ),
    "no topics": ({"subscribe": " ,"}, "No topics to subscribe to as specified value for option 'subscribe' is ' ,'"),
    "no pattern": ({"subscribePattern": " "}, "Pattern to subscribe is empty as specified value for option"),
    "no partitions": ({"assign": "t"}, "No topicpartitions to assign as specified value for option 'assign' is 't'"),
    "partitions that are none": (
        {"assign": '{"t": 5}'},
        'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {"t": 5}',
    ),
    "offsets that are none": (
        {"subscribe": "events", "startingOffsets": "soon"},
        'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got soon',
    ),
    "a time that is none": ({"subscribe": "events", "startingTimestamp": "x"}, "Expected a single long value, got x"),
    "start at the end": (
        {"subscribe": "events", "startingOffsets": "latest"},
        "starting offset can't be latest for batch queries on Kafka",
    ),
    "start of a partition at the end": (
        {"assign": '{"events": [0]}', "startingOffsets": '{"events": {"0": -1}}'},
        "startingOffsets for events-0 can't be latest for batch queries on Kafka",
    ),
    "end at the start": (
        {"subscribe": "events", "endingOffsets": "earliest"},
        "ending offset can't be earliest for batch queries on Kafka",
    ),
    "end of a partition at the start": (
        {"assign": '{"events": [0]}', "endingOffsets": '{"events": {"0": -2}}'},
        "ending offset for events-0 can't be earliest for batch queries on Kafka",
    ),
    "no tasks": ({"subscribe": "events", "minPartitions": "0"}, "minPartitions must be positive"),
    "least above most": (
        {"subscribe": "events", "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
        "The value of minOffsetPerTrigger(5) is higher than the maxOffsetsPerTrigger(4).",
    ),
    "auto.offset.reset": (
        {"subscribe": "events", "kafka.auto.offset.reset": "latest"},
        "Kafka option 'auto.offset.reset' is not supported",
    ),
    "enable.auto.commit": (
        {"subscribe": "events", "kafka.enable.auto.commit": "true"},
        "Kafka option 'enable.auto.commit' is not supported",
    ),
    "key.deserializer": (
        {"subscribe": "events", "kafka.key.deserializer": "x"},
        "Kafka option 'key.deserializer' is not supported as keys are deserialized as byte arrays",
    ),
    "end before start": (
        {
            "assign": '{"events": [0]}',
            "startingOffsets": '{"events": {"0": 9}}',
            "endingOffsets": '{"events": {"0": 3}}',
        },
        "The specified start offset 9 is greater than the end offset 3 for topic events partition 0.",
        "Beginning offset 9 is after the ending offset 3 for topic events partition 0.",
    ),
    "end time before start time": (
        {"assign": '{"events": [0]}', "startingTimestamp": at(9), "endingTimestamp": at(3)},
        f"The specified start timestamp {at(9)} is greater than the end timestamp {at(3)}.",
        "Beginning offset 9 is after the ending offset 3 for topic events partition 0.",
    ),
    "end time of a partition before its start time": (
        {
            "assign": '{"events": [0]}',
            "startingOffsetsByTimestamp": json.dumps({"events": {"0": BASE_MS + 9000}}),
            "endingOffsetsByTimestamp": json.dumps({"events": {"0": BASE_MS + 3000}}),
        },
        f"The specified start timestamp {at(9)} is greater than the end timestamp {at(3)} for topic events partition 0.",
        "Beginning offset 9 is after the ending offset 3 for topic events partition 0.",
    ),
    "end offset before start time": (
        {"assign": '{"events": [0]}', "startingTimestamp": at(9), "endingOffsets": '{"events": {"0": 3}}'},
        "The resolved start offset 9 is greater than the resolved end offset 3 for topic events partition 0.",
        "Beginning offset 9 is after the ending offset 3 for topic events partition 0.",
    ),
    "start behind the log": (
        {"assign": '{"events": [1]}', "startingOffsets": '{"events": {"1": 900}}'},
        "The resolved start offset 900 is greater than the resolved end offset 90 for topic events partition 1.",
        "Beginning offset 900 is after the ending offset 90 for topic events partition 1.",
    ),
    "end names other partitions": (
        {
            "assign": '{"events": [0]}',
            "startingOffsets": '{"events": {"0": 1}}',
            "endingOffsets": '{"events": {"1": 3}}',
        },
        "The specified start offset and end offset should have the same topic-partitions.",
        "Partitions specified for Kafka start offsets don't match what are assigned.",
    ),
    "offsets for other partitions": (
        {"subscribe": "events", "startingOffsets": '{"events": {"0": 1}}'},
        "events-3",
    ),
    "no record so young": (
        {"assign": '{"events": [1]}', "startingTimestamp": at(200)},
        f"No offset matched from request of topic-partition events-1 and timestamp {at(200)}.",
    ),
    "records are gone": (
        {"subscribe": "trimmed", "startingOffsets": '{"trimmed": {"0": 20}}'},
        "Some data may have been lost because they are not available in Kafka any more; either the data was aged out by Kafka or "
        "the topic may have been deleted before all the data in the topic was processed.",
    ),
    "an unknown topic": ({"subscribe": "absent"}, ""),
}
WRITES: dict[str, tuple[str, dict[str, str], str]] = {
    "values": ("SELECT CAST(id AS STRING) AS value FROM range(5)", {"topic": "out-{source}"}, "out-{source}"),
    "keys, headers, partitions": (
        "SELECT CAST(id AS STRING) AS key, IF(id = 3, NULL, CAST(CAST(id * 2 AS STRING) AS BINARY)) AS value, "
        "CAST(id % 2 AS INT) AS partition, "
        "IF(id = 1, NULL, array(named_struct('key', 'a', 'value', CAST('x' AS BINARY)), "
        "named_struct('key', 'b', 'value', CAST(NULL AS BINARY)))) AS headers FROM range(6)",
        {"topic": "full-{source}", "includeHeaders": "true"},
        "full-{source}",
    ),
    "keys choose the partition": (
        "SELECT CONCAT('key', id) AS key, CAST(id AS STRING) AS value FROM range(40)",
        {"topic": "keyed-{source}"},
        "keyed-{source}",
    ),
    "a topic column": (
        "SELECT IF(id < 2, 'one-{source}', 'two-{source}') AS topic, CAST(id AS STRING) AS key, 'v' AS value FROM range(5)",
        {},
        "one-{source},two-{source}",
    ),
    "the option wins over the column": (
        "SELECT 'absent' AS topic, CAST(id AS STRING) AS value, timestamp'2001-01-01' AS timestamp FROM range(3)",
        {"topic": "wins-{source}"},
        "wins-{source}",
    ),
}
SINK_ERRORS: dict[str, tuple[str, dict[str, str], str]] = {
    "no topic": ("SELECT 'v' AS value", {}, "topic option required when no 'topic' attribute is present"),
    "no value": ("SELECT 'k' AS key", {"topic": "out-kafka"}, "Required attribute 'value' not found"),
    "a value of the wrong type": (
        "SELECT 5 AS value",
        {"topic": "out-kafka"},
        "value attribute unsupported type int. value must be a(n) string or binary",
    ),
    "a partition of the wrong type": (
        "SELECT 'v' AS value, 'x' AS partition",
        {"topic": "out-kafka"},
        "partition attribute unsupported type string. partition must be a(n) int",
    ),
    "a null topic": ("SELECT 'v' AS value, CAST(NULL AS STRING) AS topic", {}, "null topic"),
    "a topic that does not exist": ("SELECT 'v' AS value", {"topic": "absent", "kafka.max.block.ms": "1500"}, "absent"),
}


def fill(servers: str) -> None:
    names = {"events": 4, "stamped": 1, "packed": 2, "compacted": 1, "trimmed": 1}
    names |= {f"{name}-{source}": 2 for name in ("out", "full", "keyed", "one", "two", "wins") for source in SOURCES}
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
    configs = {"stamped": {"message.timestamp.type": "LogAppendTime"}, "compacted": compact}
    with SyncAdmin(bootstrap_servers=servers) as admin:
        admin.create_topics(
            [NewTopic(name, count, 1, topic_configs=configs.get(name, {})) for name, count in names.items()]
        )
    with SyncProducer(bootstrap_servers=servers) as producer:
        for partition, size in SIZES.items():
            for number in range(size):
                key = None if number % 5 == 0 else b"key-%d" % (number % 13)
                value = None if number % 11 == 0 else b"value %d" % number
                headers = [("n", b"%d" % number), ("n", b""), ("null", None)][: number % 4] if number % 3 == 0 else []
                producer.send("events", value, key, partition, BASE_MS + number * 1000, headers)
        for number in range(40):
            producer.send("stamped", b"%d" % number, timestamp_ms=BASE_MS)
        for number in range(150):
            producer.send("trimmed", b"%d" % number)
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        with SyncProducer(bootstrap_servers=servers, compression_type=codec) as producer:
            for number in range(60):
                producer.send("packed", b"the same text again and again %d" % (number % 4), b"%d" % number)
    with SyncAdmin(bootstrap_servers=servers) as admin:
        admin.delete_records({TopicPartition("trimmed", 0): 100})
    compact_one(servers)


def compact_one(servers: str) -> None:
    """Most records of `compacted` give way to later ones of the same key; the cleaner leaves the active segment alone."""
    with SyncProducer(bootstrap_servers=servers) as producer:
        for number in range(100):
            producer.send(
                "compacted", b"%d" % number, b"once" if number % 10 == 7 and number > 30 else b"%d" % (number % 4)
            )
        producer.flush()

    def cleaned() -> bool:
        with SyncProducer(
            bootstrap_servers=servers
        ) as producer:  # a new segment, so that the one before may be cleaned
            producer.send_and_wait("compacted", b"tick", b"tick")
        consumer = ConfluentConsumer({"bootstrap.servers": servers, "group.id": "judge"})
        try:
            consumer.assign([ConfluentPartition("compacted", 0, 0)])
            first = consumer.consume(1, timeout=10)
            return bool(first) and first[0].offset() > 0
        finally:
            consumer.close()

    wait_until(cleaned, "compaction", 60)


def fill_with_transactions(servers: str) -> None:
    with SyncAdmin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("ledger", 2, 1)])
    producer = ConfluentProducer({"bootstrap.servers": servers, "transactional.id": "writer", "partitioner": "murmur2"})
    producer.init_transactions(30)
    for number, commit in enumerate([True, False, True, False]):
        producer.begin_transaction()
        for each in range(20):
            producer.produce("ledger", b"%d of %d" % (each, number), partition=each % 2, timestamp=BASE_MS)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)


SOURCES = ("kafka", "kafkalite")
THROUGH_SPARK = {"everything", "without headers", "many and small tasks", "what compaction left", SKIPPING, "committed"}
THROUGH_SPARK |= {"no choice", "end before start", "records are gone", "an unknown topic"}
"""Reads by ours that Spark does: each way in which rows, tasks and errors come out of it. In the other reads the source is asked directly;
what differs between them are options, which Spark hands on as they are."""


def cases(ours: str, apache: str) -> dict[str, dict[str, Any]]:
    def case(kind: str, servers: str, options: dict[str, str], **more: str) -> dict[str, Any]:
        return {"kind": kind, "options": {"kafka.bootstrap.servers": servers, **options}, **more}

    with_headers = {"includeHeaders": "true"}
    found = {
        f"read {name}": case("read", ours, with_headers | options) for name, options in (READS | OURS_ALONE).items()
    }
    found |= {f"read {name}": case("read", apache, options) for name, options in TRANSACTIONAL_READS.items()}
    found |= {f"error {name}": case("read", ours, options) for name, (options, *_) in ERRORS.items()}
    for prefix, writes in (("write", WRITES), ("sink error", SINK_ERRORS)):
        found |= {
            f"{prefix} {name}": case("write", ours, options, sql=sql, read=topics)
            for name, (sql, options, topics) in writes.items()
        }
    for name, each in found.items():
        each["direct"] = each["kind"] == "read" and name.split(" ", 1)[1] not in THROUGH_SPARK
    return found


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What both sources gave in each case that a test of this run is about."""
    scratch = tmp_path_factory.mktemp("spark")
    jars = spark_connector.jars()
    with (
        LocalCluster(brokers=1, properties=PROPERTIES) as ours,
        LocalCluster(brokers=1, properties=APACHE, command=apache_kafka.broker_command()) as apache,
    ):
        apache_kafka.wait_for_controller(apache.bootstrap_servers)
        fill(ours.bootstrap_servers)
        fill_with_transactions(apache.bootstrap_servers)
        every = cases(ours.bootstrap_servers, apache.bootstrap_servers)
        wanted = names_of(each for each in request.session.items if each.path == request.path)
        asked = {"jars": jars, "cases": {name: case for name, case in every.items() if name.endswith(wanted)}}
        yield ask(asked, scratch)


def names_of(tests: Iterable[pytest.Item]) -> tuple[str, ...]:
    """The names of the cases that these tests look at."""
    names = [SKIPPING, f"{SKIPPING} in many tasks"]
    for each in tests:
        names += (
            each.callspec.params.values() if isinstance(each, pytest.Function) and hasattr(each, "callspec") else []
        )
    return tuple(f" {name}" for name in names)


def ask(asked: dict[str, Any], scratch: Path) -> dict[str, Any]:
    found: dict[str, Any] = spark_connector.run_program("tests.peers.spark_comparison", asked, scratch, timeout_s=850)
    return found


@pytest.mark.parametrize("name", [*READS, *TRANSACTIONAL_READS])
def test_the_frames_are_equal(outcomes: dict[str, Any], name: str) -> None:
    theirs, ours = (outcomes[f"read {name}"][source] for source in SOURCES)
    assert "answer" in theirs, theirs
    assert "answer" in ours, ours
    assert ours["answer"]["schema"] == theirs["answer"]["schema"]
    assert ours["answer"]["rows"] == theirs["answer"]["rows"]


def test_lost_records_are_skipped_in_many_tasks_as_in_one(outcomes: dict[str, Any]) -> None:
    one, many = (
        outcomes[f"read lost records are skipped{more}"]["kafkalite"]["answer"] for more in ("", " in many tasks")
    )
    assert many["rows"] == one["rows"] and many["tasks"] >= 12


@pytest.mark.parametrize("name", ["many tasks", "many and small tasks"])
def test_ranges_are_split_alike(outcomes: dict[str, Any], name: str) -> None:
    theirs, ours = (outcomes[f"read {name}"][source]["answer"]["tasks"] for source in SOURCES)
    assert ours == theirs


@pytest.mark.parametrize("name", ERRORS)
def test_the_errors_are_the_same(outcomes: dict[str, Any], name: str) -> None:
    _, *texts = ERRORS[name]
    check_texts(outcomes[f"error {name}"], ours=texts[0], theirs=texts[-1])


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_is_equal(outcomes: dict[str, Any], name: str) -> None:
    theirs, ours = (outcomes[f"write {name}"][source] for source in SOURCES)
    assert theirs.get("answer"), theirs
    assert ours == theirs


@pytest.mark.parametrize("name", SINK_ERRORS)
def test_the_errors_of_the_sink_are_the_same(outcomes: dict[str, Any], name: str) -> None:
    text = SINK_ERRORS[name][2]
    check_texts(outcomes[f"sink error {name}"], ours=text, theirs=text)


def check_texts(outcome: dict[str, Any], *, ours: str, theirs: str) -> None:
    """Both fail with these texts; how the errors are wrapped differs. Where the texts differ ours is that of later releases of Spark."""
    for source, text in zip(SOURCES, (theirs, ours), strict=True):
        assert "error" in outcome[source], f"{source} gave {str(outcome[source])[:500]}"
        assert text in outcome[source]["error"], f"{source}: {outcome[source]['error'][:3000]}"
