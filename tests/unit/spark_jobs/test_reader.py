"""What an executor does with a range: rows, and what happens when the log has lost a part of it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow
import pytest

from kafkalite.client import ClientError, ConsumerOptions, TopicPartition
from kafkalite.client.errors import ClientTimeoutError
from kafkalite.errors import ErrorCode
from spark_jobs.options import OptionError, batch_options, client_options
from spark_jobs.ranges import DataLossError, OffsetRange
from spark_jobs.reader import RACK_VARIABLE, BatchReader, RangePartition, available, own_rack, read_partition
from spark_jobs.rows import source_schema

T0 = TopicPartition("t", 0)


class Log:
    """A partition whose records are their offsets; takes the place of a consumer."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.problem: ClientError | None = None
        self.asked: list[tuple[int, int]] = []

    def read_range(self, partition: Any, start: int, end: int, *, columns: Any) -> Iterator[Any]:
        self.asked.append((start, end))
        if not self.start <= start <= self.end:
            raise ClientError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {start} is out of range")
        for first in range(start, min(end, self.end), 10):
            if self.problem is not None:
                raise self.problem
            yield pyarrow.record_batch({"offset": list(range(first, min(first + 10, end, self.end)))})
        if end > self.end:
            raise ClientTimeoutError(f"nothing at offset {self.end}")

    def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.start)

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.end)


def offsets(log: Log, start: int, end: int, *, fail: bool = False) -> list[int]:
    batches = available(log, OffsetRange("t", 0, start, end), ["offset"], fail)  # type: ignore[arg-type]
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_a_whole_range() -> None:
    log = Log(0, 100)
    assert offsets(log, 5, 38) == list(range(5, 38))
    assert log.asked == [(5, 38)]


@pytest.mark.parametrize(
    "start, end, left",
    [
        (10, 90, range(50, 90)),
        (10, 40, range(0)),
        (10, 130, range(50, 100)),
        (60, 130, range(60, 100)),
        (120, 130, range(0)),
        (100, 130, range(0)),
    ],
)
def test_what_is_lost_is_skipped_or_an_error(start: int, end: int, left: range, caplog: Any) -> None:
    assert offsets(Log(50, 100), start, end) == list(left)
    assert "They are skipped, because failOnDataLoss is false" in caplog.text
    with pytest.raises(DataLossError, match=r"Could not read records in offset \[\d+, \d+\) for topic partition t-0"):
        offsets(Log(50, 100), start, end, fail=True)


def test_the_error_names_what_is_lost_and_nothing_else() -> None:
    with pytest.raises(DataLossError, match=r"records in offset \[10, 50\) for topic partition t-0"):
        offsets(Log(50, 100), 10, 90, fail=True)


def test_retention_overtakes_the_reader() -> None:
    log = Log(0, 100)
    batches = available(log, OffsetRange("t", 0, 0, 60), ["offset"], False)  # type: ignore[arg-type]
    assert next(batches).column("offset").to_pylist() == list(range(10))
    log.start, log.problem = 30, ClientError(ErrorCode.OFFSET_OUT_OF_RANGE, "gone")

    def recovered(*arguments: Any, **options: Any) -> Iterator[Any]:
        log.problem = None
        return Log.read_range(log, *arguments, **options)

    log.read_range = recovered  # type: ignore[method-assign]
    assert [batch.column("offset")[0].as_py() for batch in batches] == [30, 40, 50]


def test_a_topic_that_was_deleted_is_lost_as_a_whole() -> None:
    log = Log(0, 100)
    log.problem = ClientError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
    assert offsets(log, 0, 60) == []
    with pytest.raises(DataLossError, match="there is no such topic"):
        offsets(log, 0, 60, fail=True)


@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize(
    "problem", [ClientTimeoutError("no answer"), ClientError(ErrorCode.CORRUPT_MESSAGE, "batch 5 has a wrong CRC")]
)
def test_trouble_is_not_taken_for_loss(problem: ClientError, fail: bool) -> None:
    log = Log(0, 100)
    log.problem = problem
    with pytest.raises(type(problem), match=str(problem)):
        offsets(log, 0, 60, fail=fail)


def parsed(**options: str) -> Any:
    return batch_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t", **options})


def test_nothing_to_read_needs_no_broker() -> None:
    assert list(read_partition(RangePartition(()), parsed(), source_schema(False))) == []


def test_reader_and_partitions_travel_to_executors() -> None:
    reader = BatchReader(parsed(startingOffsets='{"t": {"0": 5}}'), source_schema(True))
    assert pickle.loads(pickle.dumps(reader))._options == reader._options
    ranges = (OffsetRange("t", 0, 5, 9), OffsetRange("t", 1, 0, 2))
    partition = pickle.loads(pickle.dumps(RangePartition(ranges)))
    assert partition.ranges == ranges and repr(partition) == "RangePartition([5, 9) of t-0, [0, 2) of t-1)"


def test_tasks_of_the_nightly_jobs_are_taken_as_they_are() -> None:
    options = {
        "kafka.bootstrap.servers": "b:1",
        "assign": '{"t": [0, 1]}',
        "tasks": "[[[0, 5, 9], [1, 0, 2]], [[1, 2, 7]]]",
    }
    tasks = BatchReader(batch_options(options), source_schema(False)).partitions()
    assert [each.ranges for each in tasks] == [
        (OffsetRange("t", 0, 5, 9), OffsetRange("t", 1, 0, 2)),
        (OffsetRange("t", 1, 2, 7),),
    ]


def test_filters_are_left_to_spark() -> None:
    from pyspark.sql.datasource import DataSourceReader

    assert BatchReader.pushFilters is DataSourceReader.pushFilters


def test_a_schema_that_the_source_does_not_have() -> None:
    from pyspark.sql.types import StructType

    with pytest.raises(OptionError, match="no column colour"):
        BatchReader(parsed(), StructType().add("colour", "string"))


def test_an_executor_says_where_it_is() -> None:
    assert own_rack({}) == own_rack({RACK_VARIABLE: ""}) == {}
    assert own_rack({RACK_VARIABLE: "a1"}) == {"client.rack": "a1"}
    settings = {**own_rack({RACK_VARIABLE: "a1"}), "client.rack": "b2"}
    assert client_options(ConsumerOptions, settings)["client_rack"] == "b2", "what the query says counts"
