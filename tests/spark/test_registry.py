"""Records of a real schema registry, whose own topic is on our brokers: nights and queries, row for row as fastavro's reader has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pyarrow import parquet

from kafkalite.client import SyncConsumer, TopicPartition
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from spark_jobs.batch import layout
from spark_jobs.batch.formats import Format, Formats
from spark_jobs.jobs import archive
from spark_jobs.registry.client import Registry, RegistryOptions, UnknownSchemaError
from spark_jobs.registry.lookup import Choice, Lookup
from spark_jobs.registry.protobuf_compiler import compile_schemas
from spark_jobs.registry.schemas import PROTOBUF, Reference, Schema
from spark_jobs.registry.wire_format import schema_id, with_header
from tests.spark.conftest import TopicMaker
from tests.spark.nights import DAY, FOREVER, Sent, archived, night_on, send
from tests.spark.schema_registry import SchemaRegistry, schema_registry
from zk.servers.ensemble import free_ports

pytestmark = [pytest.mark.spark, pytest.mark.peer, pytest.mark.timeout(900)]

V1 = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "delay", "type": ["null", "int"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
V2 = {**V1, "fields": [*V1["fields"], {"name": "source", "type": "string", "default": "unknown"}]}
UNKNOWN_ID = 1 << 30
DAMAGES = (f"unknown schema id {UNKNOWN_ID}", "not in the schema registry's wire format", "not Avro of the schema")
"""The reasons of the records that `fill` sends last."""
AT = datetime(2013, 6, 15, 10, tzinfo=UTC)


@pytest.fixture(scope="module")
def registry(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistry]:
    with schema_registry(cluster.bootstrap_servers, tmp_path_factory.mktemp("registry"), free_ports(1)[0]) as running:
        yield running


def packed(number: int, schema: Any, value: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return with_header(number, stream.getvalue())


def fill(cluster: LocalCluster, registry: SchemaRegistry, topic: str) -> list[dict[str, Any] | None]:
    """Send records of both versions, damaged ones and a tombstone; return what fastavro's own reader makes of the good ones."""
    first, second = registry.register(f"{topic}-value", V1), registry.register(f"{topic}-value", V2)
    rows = [{"carrier": "UA", "delay": number if number % 3 else None, "at": AT} for number in range(100)]
    values: list[bytes | None] = [packed(first, V1, row) for row in rows[:50]]
    values += [packed(second, V2, {**row, "source": "radar"}) for row in rows[50:]]
    old, new = fastavro.parse_schema(V1), fastavro.parse_schema(V2)
    expected: list[Any] = [
        fastavro.schemaless_reader(BytesIO(value[5:]), new if index >= 50 else old, new)
        for index, value in enumerate(values)
        if value is not None
    ]
    odd: list[bytes | None] = [None, with_header(UNKNOWN_ID, b"x"), b"{}", with_header(first, b"\xff")]
    send(cluster.bootstrap_servers, topic, [Sent(DAY, index, value=value) for index, value in enumerate(values + odd)])
    return [*expected, None]


def test_a_night_decodes_all_versions_and_puts_the_rest_among_the_dead_letters(
    spark: Any, cluster: LocalCluster, registry: SchemaRegistry, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = make_topic(1, config=FOREVER)
    expected = fill(cluster, registry, topic)
    lookup = Lookup(Choice("value", "avro"), Registry(RegistryOptions(registry.url)))
    with night_on(spark, cluster.bootstrap_servers, tmp_path) as night:
        entry = archive.main(night, topic, DAY, Formats(value=Format("avro", lookup=lookup)))
    assert entry.counts == {"records": 101, "late": 0, "dead_letters": 3}
    assert [row["decoded"] for row in archived(tmp_path, topic, DAY)] == expected
    reasons = [row["reason"] for row in archived(tmp_path, topic, DAY, layout.DEAD_LETTERS)]
    assert len(reasons) == len(DAMAGES)
    assert all(damage in reason for damage, reason in zip(DAMAGES, reasons, strict=True)), reasons


def test_a_query_has_the_decoded_column_beside_the_bytes(
    spark: Any, cluster: LocalCluster, registry: SchemaRegistry, make_topic: TopicMaker
) -> None:
    topic = make_topic(1, config=FOREVER)
    expected = fill(cluster, registry, topic)
    reader = spark.read.format("kafkalite").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    reader = reader.options(subscribe=topic, valueFormat="avro", **{"schema.registry.url": registry.url})
    rows = reader.load().orderBy("offset").select("decodedValue", "valueError", "value").collect()
    found = [None if row.decodedValue is None else row.decodedValue.asDict() for row in rows]
    assert [row and {**row, "at": row["at"].replace(tzinfo=UTC)} for row in found] == [*expected, None, None, None]
    assert [row.valueError is not None for row in rows] == [False] * 101 + [True] * 3
    assert rows[0].value[:1] == b"\x00"
    old = reader.option("valueSchema", "1").load()
    assert old.schema["decodedValue"].dataType.names == ["carrier", "delay", "at"]
    assert old.where("decodedValue.carrier = 'UA'").count() == 100


def test_a_stream_has_the_decoded_column(
    spark: Any, cluster: LocalCluster, registry: SchemaRegistry, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = make_topic(1, config=FOREVER)
    expected = fill(cluster, registry, topic)
    reader = spark.readStream.format("kafkalite").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    reader = reader.options(
        subscribe=topic, valueFormat="avro", startingOffsets="earliest", **{"schema.registry.url": registry.url}
    )
    rows = reader.load().select("offset", "decodedValue", "valueError").writeStream.format("parquet")
    places = {"path": str(tmp_path / "rows"), "checkpointLocation": str(tmp_path / "checkpoint")}
    rows.options(**places).trigger(availableNow=True).start().awaitTermination()
    found = sorted(parquet.read_table(tmp_path / "rows").to_pylist(), key=lambda row: row["offset"])
    assert [row["decodedValue"] for row in found] == [*expected, None, None, None]
    errors = [row["valueError"] for row in found[-3:]]
    assert all(damage in error for damage, error in zip(DAMAGES, errors, strict=True)), errors


MONEY = 'syntax = "proto3"; package shop; message Money { string currency = 1; int64 units = 2; }'
ORDER = """syntax = "proto3";
package shop;
import "shop/money.proto";
message Order { string id = 1; Money price = 2; repeated int32 counts = 3; }
"""


def test_a_night_decodes_protobuf_of_a_schema_that_imports_another(
    spark: Any, cluster: LocalCluster, registry: SchemaRegistry, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = make_topic(1, config=FOREVER)
    registry.register(f"{topic}-money", MONEY, kind=PROTOBUF)
    references = [("shop/money.proto", f"{topic}-money", 1)]
    number = registry.register(f"{topic}-value", ORDER, references, PROTOBUF)
    pool = descriptor_pool.DescriptorPool()
    (compiled,) = compile_schemas([Schema(ORDER, PROTOBUF, (Reference("shop/money.proto", MONEY),))])
    for each in descriptor_pb2.FileDescriptorSet.FromString(compiled.compiled).file:
        pool.Add(each)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    messages = [order(id=f"o{n}", price={"currency": "EUR", "units": n}, counts=range(n % 3)) for n in range(50)]
    values = [with_header(number, b"\x00" + each.SerializeToString()) for each in messages]
    odd = [with_header(UNKNOWN_ID, b"\x00"), with_header(number, b"\x00\x0a\x05x")]
    send(cluster.bootstrap_servers, topic, [Sent(DAY, index, value=value) for index, value in enumerate(values + odd)])
    lookup = Lookup(Choice("value", "protobuf"), Registry(RegistryOptions(registry.url)))
    with night_on(spark, cluster.bootstrap_servers, tmp_path) as night:
        entry = archive.main(night, topic, DAY, Formats(value=Format("protobuf", lookup=lookup)))
    assert entry.counts == {"records": 50, "late": 0, "dead_letters": 2}
    assert [row["decoded"] for row in archived(tmp_path, topic, DAY)] == [
        {"id": each.id, "price": {"currency": "EUR", "units": each.price.units}, "counts": list(each.counts)}
        for each in messages
    ]
    reasons = [row["reason"] for row in archived(tmp_path, topic, DAY, layout.DEAD_LETTERS)]
    assert f"unknown schema id {UNKNOWN_ID}" in reasons[0] and "not Protobuf of the schema" in reasons[1], reasons


MONTH = {
    "type": "object",
    "required": ["carrier"],
    "properties": {
        "carrier": {"type": "string"},
        "delay": {"type": ["null", "integer"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "more": {"type": ["object", "string"]},
    },
}


def test_a_night_decodes_json_of_schemas_that_validate_it(
    spark: Any, cluster: LocalCluster, registry: SchemaRegistry, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = make_topic(1, config=FOREVER)
    number = registry.register(f"{topic}-value", MONTH, kind="JSON")
    rows = [
        {"carrier": "UA", "delay": n if n % 3 else None, "tags": ["x"] * (n % 3), "more": {"n": n}} for n in range(50)
    ]
    values = [with_header(number, json.dumps(row).encode()) for row in rows]
    odd = [with_header(UNKNOWN_ID, b"{}"), with_header(number, b"{}"), with_header(number, b"{")]
    send(cluster.bootstrap_servers, topic, [Sent(DAY, index, value=value) for index, value in enumerate(values + odd)])
    lookup = Lookup(Choice("value", "json-schema"), Registry(RegistryOptions(registry.url)))
    with night_on(spark, cluster.bootstrap_servers, tmp_path) as night:
        entry = archive.main(night, topic, DAY, Formats(value=Format("json-schema", lookup=lookup)))
    assert entry.counts == {"records": 50, "late": 0, "dead_letters": 3}
    found = [row["decoded"] for row in archived(tmp_path, topic, DAY)]
    assert [{**row, "more": json.loads(row["more"])} for row in found] == rows
    reasons = [row["reason"] for row in archived(tmp_path, topic, DAY, layout.DEAD_LETTERS)]
    wanted = (f"unknown schema id {UNKNOWN_ID}", '"carrier" is a required property', "not JSON")
    assert all(part in reason for part, reason in zip(wanted, reasons, strict=True)), reasons


def test_the_sink_writes_what_fastavro_reads(
    spark: Any, cluster: LocalCluster, registry: SchemaRegistry, make_topic: TopicMaker
) -> None:
    topic = make_topic(1, config=FOREVER)
    number = registry.register(f"{topic}-value", V2)
    rows = spark.range(50).selectExpr(
        "named_struct('carrier', 'UA', 'delay', if(id % 3 = 0, null, int(id)), 'at', timestamp_millis(id)) as value"
    )
    places = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "schema.registry.url": registry.url}
    rows.write.format("kafkalite").options(topic=topic, valueFormat="avro", **places).mode("append").save()
    place = TopicPartition(topic, 0)
    with SyncConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        batches = list(consumer.read_range(place, 0, consumer.end_offsets([place])[place]))
    found = [row["value"] for batch in batches for row in batch.to_pylist()]
    parsed = fastavro.parse_schema(V2)
    assert {schema_id(value) for value in found} == {number}
    read = [fastavro.schemaless_reader(BytesIO(value[5:]), parsed, None) for value in found]
    assert sorted(read, key=lambda row: row["at"]) == [
        {
            "carrier": "UA",
            "delay": n if n % 3 else None,
            "at": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=n),
            "source": "unknown",
        }
        for n in range(50)
    ]


def test_subjects_that_there_are_not(registry: SchemaRegistry) -> None:
    with pytest.raises(UnknownSchemaError, match="no such subject or version"):
        Lookup(Choice("value", "avro"), Registry(RegistryOptions(registry.url))).reader("absent")


def test_schemas_outlive_brokers_and_the_registry(
    cluster: LocalCluster, registry: SchemaRegistry, tmp_path: Path
) -> None:
    """Brokers are killed one after the other, then both at once; another registry reads from their logs what was registered."""
    subject = "outliving-value"
    numbers = [registry.register(subject, V1)]
    for broker in cluster.broker_ids:
        cluster.kill(broker)
        cluster.start_broker(broker)
    for broker in cluster.broker_ids:
        cluster.kill(broker)
    for broker in cluster.broker_ids:
        cluster.start_broker(broker)
    numbers.append(registry.register(subject, V2))
    with schema_registry(cluster.bootstrap_servers, tmp_path, free_ports(1)[0]) as another:
        reader = Registry(RegistryOptions(another.url))

        def has_read() -> bool:
            try:
                return len(reader.versions(subject)) == len(numbers)
            except UnknownSchemaError:
                return False

        wait_until(has_read, "a registry that has read the topic of schemas", 60)
        found = reader.versions(subject)
    assert [each.id for each in found] == numbers
    assert [json.loads(each.schema.text) for each in found] == [V1, V2]
