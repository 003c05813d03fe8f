"""Which rows can become records, and which records they become."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow
import pytest
from pyspark.sql.types import StructType

from spark_jobs import writer
from spark_jobs.options import OptionError, sink_options
from spark_jobs.rows import HEADERS_TYPE
from spark_jobs.writer import SinkWriter, check_columns


class Sent(list[Any]):
    """Takes the place of a producer; `problem` is what becomes of every record."""

    problem: Exception | None = None
    flushed = False

    def __call__(self, **options: Any) -> Sent:
        self.options = options
        return self

    def __enter__(self) -> Sent:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self, timeout: float) -> None:
        pass

    def send_columns(self, topic: str, values: list[Any], on_failure: Callable[[Exception], None], **more: Any) -> None:
        names = ("keys", "partitions", "timestamps_ms", "headers")
        columns = [more[name] if more[name] is not None else [None] * len(values) for name in names]
        self.extend(zip([topic] * len(values), values, *columns, strict=True))
        if self.problem is not None:
            on_failure(self.problem)

    def flush(self) -> None:
        self.flushed = True


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    producer = Sent()
    monkeypatch.setattr(writer, "SyncProducer", producer)
    return producer


def options(**given: str) -> Any:
    return sink_options({"kafka.bootstrap.servers": "b:1", **given})


FULL = (
    StructType()
    .add("other", "double")
    .add("topic", "string")
    .add("partition", "integer")
    .add("key", "string")
    .add("value", "binary")
    .add("timestamp", "timestamp")
    .add("headers", HEADERS_TYPE)
)


def full_batch() -> Any:
    moment = pyarrow.array([datetime(2013, 6, 15, 12, tzinfo=UTC), None], pyarrow.timestamp("us", "UTC"))
    return pyarrow.record_batch(
        {
            "other": [1.0, 2.0],
            "topic": ["a", "b"],
            "partition": pyarrow.array([3, None], pyarrow.int32()),
            "key": ["ä", None],
            "value": [b"v", None],
            "timestamp": moment,
            "headers": [[{"key": "h", "value": None}], None],
        }
    )


def test_every_column(sent: Sent) -> None:
    SinkWriter(options(includeTimestamp="true"), FULL).write(iter([full_batch()]))
    noon_ms = 1_371_297_600_000
    assert sent == [("a", b"v", "ä".encode(), 3, noon_ms, [("h", None)]), ("b", None, None, None, None, None)]
    assert sent.flushed and sent.options == {"bootstrap_servers": "b:1", "partitioner": "sticky", "batch_size": 262_144}


def test_the_option_wins_over_the_column_and_times_are_left_out(sent: Sent) -> None:
    SinkWriter(options(topic="t"), FULL).write(iter([full_batch()]))
    assert [(topic, time_ms) for topic, _, _, _, time_ms, _ in sent] == [("t", None), ("t", None)]


def test_a_value_alone_is_enough(sent: Sent) -> None:
    SinkWriter(options(topic="t"), StructType().add("value", "string")).write(
        iter([pyarrow.record_batch({"value": ["x"]}), pyarrow.record_batch({"value": ["y", None]})])
    )
    assert [value for _, value, *_ in sent] == [b"x", b"y", None]


def test_the_first_failure_ends_the_task(sent: Sent) -> None:
    sent.problem = ValueError("too large")
    with pytest.raises(ValueError, match="too large"):
        SinkWriter(options(topic="t"), FULL).write(iter([full_batch(), full_batch()]))
    assert len(sent) == 2, "the second batch was not begun"


def test_a_row_without_a_topic(sent: Sent) -> None:
    schema = StructType().add("topic", "string").add("value", "string")
    batch = pyarrow.record_batch({"topic": pyarrow.array([None], pyarrow.string()), "value": ["v"]})
    with pytest.raises(OptionError, match=r"contains a null topic\. Use the `topic` option"):
        SinkWriter(options(), schema).write(iter([batch]))


@pytest.mark.parametrize(
    "columns, given, message",
    [
        ({"value": "string"}, {}, "topic option required when no 'topic' attribute is present"),
        ({"key": "string"}, {"topic": "t"}, "Required attribute 'value' not found"),
        (
            {"value": "integer"},
            {"topic": "t"},
            r"value attribute unsupported type int\. value must be a\(n\) string or binary",
        ),
        ({"value": "string", "topic": "integer"}, {}, "topic attribute unsupported type int"),
        ({"value": "string", "partition": "long"}, {"topic": "t"}, "partition attribute unsupported type bigint"),
        ({"value": "string", "headers": "string"}, {"topic": "t"}, "headers attribute unsupported type string"),
        ({"value": "string"}, {"topic": "t", "includeTimestamp": "true"}, "needs an attribute 'timestamp'"),
    ],
)
def test_rows_that_are_no_records(columns: dict[str, str], given: dict[str, str], message: str) -> None:
    schema = StructType()
    for name, kind in columns.items():
        schema = schema.add(name, kind)
    with pytest.raises(OptionError, match=message):
        check_columns(schema, options(**given))


def test_columns_that_are_not_used_may_have_any_type() -> None:
    schema = StructType().add("value", "string").add("topic", "integer").add("timestamp", "integer")
    check_columns(schema, options(topic="t"))
