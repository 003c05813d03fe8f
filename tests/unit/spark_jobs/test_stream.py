"""The driver's half of a stream, on a log that is a dictionary: where batches begin and end, and what counts as lost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from kafkalite.client import TopicPartition
from spark_jobs import source
from spark_jobs.early_stream import EarlyStreamReader
from spark_jobs.options import OptionError, stream_options
from spark_jobs.ranges import DataLossError, OffsetRange
from spark_jobs.rows import source_schema
from spark_jobs.source import KafkaliteSource
from spark_jobs.stream import StreamReader
from spark_jobs.stream_batches import StreamBatches

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Log:
    """Where each partition begins and ends; takes the place of `Positions`."""

    def __init__(self, **partitions: tuple[int, int]) -> None:
        self.spans = {TopicPartition("t", int(name[1:])): span for name, span in partitions.items()}
        self.now_s = 1e9
        self.closed = False
        self.topic_ids = {"t": "first"}
        self.lagging: dict[TopicPartition, tuple[int, int]] | None = None
        """What a broker answers that has just started, once: to whoever knows better it is asked again."""

    def choose_partitions(self, known: Iterable[TopicPartition] = ()) -> set[TopicPartition]:
        seen = self.spans if self.lagging is None else self.lagging
        if not set(known) <= set(seen):
            seen, self.lagging = self.spans, None
        return set(seen)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: self.spans[each][0] for each in partitions}

    def latest(self, partitions: Iterable[TopicPartition], known: Any = None) -> dict[TopicPartition, int]:
        seen = self.spans if self.lagging is None else self.lagging
        if any(seen[each][1] < offset for each, offset in (known or {}).items() if each in seen):
            seen, self.lagging = self.spans, None
        return {each: seen[each][1] for each in partitions}

    def resolve(self, bound: Any, partitions: set[TopicPartition], *, starting: bool) -> dict[TopicPartition, int]:
        return self.latest(partitions)

    def close(self) -> None:
        self.closed = True


def reader(log: Log, **options: str) -> StreamReader:
    parsed = stream_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t", **options})
    return StreamReader(parsed, source_schema(False), ask=lambda _: log, now_s=lambda: log.now_s)  # type: ignore[arg-type, return-value]


def early_reader(log: Log, **options: str) -> EarlyStreamReader:
    parsed = stream_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t", **options})
    return EarlyStreamReader(parsed, source_schema(False), ask=lambda _: log)  # type: ignore[arg-type, return-value]


def tasks(partitions: list[Any]) -> list[OffsetRange]:
    return [one for each in partitions for one in each.ranges]


def test_all_that_there_is() -> None:
    log = Log(p0=(0, 5), p1=(3, 9))
    stream = reader(log)
    assert stream.initialOffset() == {"t": {"0": 5, "1": 9}}
    assert stream.getDefaultReadLimit() == ReadAllAvailable()
    assert stream.reportLatestOffset() is None
    log.spans[T0] = (0, 8)
    end = stream.latestOffset({"t": {"0": 5, "1": 9}}, ReadAllAvailable())
    assert end == {"t": {"0": 8, "1": 9}} == stream.reportLatestOffset()
    assert tasks(stream.partitions({"t": {"0": 5, "1": 9}}, end)) == [OffsetRange("t", 0, 5, 8)]


def test_no_more_than_the_limit() -> None:
    stream = reader(Log(p0=(0, 900), p1=(0, 100)), maxOffsetsPerTrigger="100", minPartitions="4")
    assert stream.getDefaultReadLimit() == ReadMaxRows(100)
    end = stream.latestOffset({"t": {"0": 0, "1": 0}}, ReadMaxRows(100))
    assert end == {"t": {"0": 90, "1": 10}}
    assert sum(each.size for each in tasks(stream.partitions({"t": {"0": 0, "1": 0}}, end))) == 100
    assert len(stream.partitions({"t": {"0": 0, "1": 0}}, end)) >= 4
    assert stream.reportLatestOffset() == {"t": {"0": 900, "1": 100}}


def test_trigger_once_reads_all_whatever_the_limit() -> None:
    stream = reader(Log(p0=(0, 900)), maxOffsetsPerTrigger="100")
    assert stream.latestOffset({"t": {"0": 0}}, ReadAllAvailable()) == {"t": {"0": 900}}


def test_too_little_waits_for_more_or_for_the_delay() -> None:
    log = Log(p0=(0, 0))
    stream = reader(log, minOffsetsPerTrigger="10", maxTriggerDelay="60s")
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMinRows(10)
    log.spans[T0] = (0, 3)
    assert stream.latestOffset({"t": {"0": 0}}, limit) == {"t": {"0": 3}}, "the first trigger has waited long enough"
    log.spans[T0] = (0, 8)
    assert stream.latestOffset({"t": {"0": 3}}, limit) == {"t": {"0": 3}}
    log.spans[T0] = (0, 13)
    assert stream.latestOffset({"t": {"0": 3}}, limit) == {"t": {"0": 13}}
    log.spans[T0] = (0, 14)
    log.now_s += 61
    assert stream.latestOffset({"t": {"0": 13}}, limit) == {"t": {"0": 14}}


def test_least_and_most_together() -> None:
    log = Log(p0=(0, 100))
    stream = reader(log, minOffsetsPerTrigger="10", maxOffsetsPerTrigger="20")
    assert stream.latestOffset({"t": {"0": 0}}, stream.getDefaultReadLimit()) == {"t": {"0": 20}}
    assert stream.latestOffset({"t": {"0": 95}}, stream.getDefaultReadLimit()) == {"t": {"0": 95}}


def test_available_now_ends_where_the_log_ended() -> None:
    log = Log(p0=(0, 50))
    stream = reader(log, maxOffsetsPerTrigger="20", minOffsetsPerTrigger="20")
    stream.prepareForTriggerAvailableNow()
    log.spans[T0] = (0, 500)
    ends, start = [], {"t": {"0": 0}}
    while (end := stream.latestOffset(start, stream.getDefaultReadLimit())) != start:
        ends.append(end["t"]["0"])
        start = end
    assert ends == [20, 40, 50], "the rest is not held back for minOffsetsPerTrigger"


@pytest.mark.parametrize("lagging", [{T0: (0, 50)}, {T0: (0, 50), T1: (0, 30)}])
def test_available_now_after_a_restart_goes_on_although_a_broker_lags_behind(lagging: Any) -> None:
    """The broker that was asked for the end of the run did not know yet of what the checkpoint has."""
    log = Log(p0=(0, 50), p1=(0, 40))
    log.lagging = lagging
    stream = reader(log)
    stream.prepareForTriggerAvailableNow()
    start = {"t": {"0": 20, "1": 35}}
    assert stream.latestOffset(start, ReadAllAvailable()) == {"t": {"0": 50, "1": 40}}
    log.spans[T0] = (0, 70)
    assert stream.latestOffset(start, ReadAllAvailable()) == {"t": {"0": 50, "1": 40}}, "the end stays"


@pytest.mark.parametrize("spans, start", [({T0: (0, 5)}, {"0": 9}), ({T0: (0, 5)}, {"0": 2, "1": 3})])
def test_a_batch_that_lost_something_is_not_written_down(spans: Any, start: dict[str, int]) -> None:
    """Spark would plan it again after each restart, also when the log is back."""
    log = Log()
    log.spans = spans
    for stream in (reader(log), reader(log, maxOffsetsPerTrigger="1")):
        with pytest.raises(DataLossError):
            stream.latestOffset({"t": start}, stream.getDefaultReadLimit())
    early = early_reader(log)
    early.partitions({"t": start}, {"t": start})
    with pytest.raises(DataLossError):
        early.latestOffset()
    tolerant = reader(log, failOnDataLoss="false")
    assert tolerant.latestOffset({"t": start}, ReadAllAvailable()) == {"t": {"0": 5}}


def test_before_spark_4_2_a_batch_is_all_that_there_is() -> None:
    log = Log(p0=(0, 5), p1=(3, 9))
    assert early_reader(log).latestOffset() == {"t": {"0": 5, "1": 9}}, "after a restart, behind a batch that is done"
    stream = early_reader(log)
    assert stream.initialOffset() == {"t": {"0": 5, "1": 9}}
    log.spans[T0], log.lagging = (0, 8), {T1: (3, 9)}
    end = stream.latestOffset()
    assert end == {"t": {"0": 8, "1": 9}}
    assert tasks(stream.partitions({"t": {"0": 5, "1": 9}}, end)) == [OffsetRange("t", 0, 5, 8)]


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_before_spark_4_2_there_are_no_limits(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(source, "_SPARK", (4, 1))
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}
    assert isinstance(KafkaliteSource(given).streamReader(source_schema(False)), EarlyStreamReader)
    with pytest.raises(OptionError, match=rf"'{name}' is 10, and needs Spark 4\.2"):
        KafkaliteSource({**given, name: "10"}).streamReader(source_schema(False))
    with pytest.raises(OptionError, match=r"streams into topics need Spark 4\.2"):
        KafkaliteSource({**given, "topic": "t"}).streamWriter(source_schema(False), False)


def test_a_topic_that_was_made_again_is_not_the_one_of_the_checkpoint() -> None:
    """It has more records than the one of before had, so its offsets alone do not show it."""
    log = Log(p0=(0, 5))
    for make in (reader, early_reader):
        log.topic_ids = {"t": "first"}
        begun, old = {"t": {"0": 2, "id": "first"}}, make(log, topicIdsInOffsets="true")
        assert old.initialOffset() == {"t": {"0": 5, "id": "first"}}
        end = ask_end(old, begun)
        assert end == {"t": {"0": 5, "id": "first"}}
        assert tasks(old.partitions(begun, end)) == [OffsetRange("t", 0, 2, 5)]
        assert tasks(old.partitions({"t": {"0": 2}}, end)) == [OffsetRange("t", 0, 2, 5)], "of a checkpoint without ids"
        assert tasks(make(log).partitions(begun, end)) == [OffsetRange("t", 0, 2, 5)], (
            "and one with ids without the option"
        )
        log.topic_ids = {"t": "second"}
        for stream, action in ((old, ask_end), (make(log, topicIdsInOffsets="true"), StreamBatches.partitions)):
            with pytest.raises(
                DataLossError, match=r"Topic t was deleted and made again: its id was first and is second"
            ):
                action(stream, begun, *([end] if action is not ask_end else []))
        log.topic_ids = {}
        with pytest.raises(OptionError, match=r"the brokers have no id of topic t"):
            make(log, topicIdsInOffsets="true").initialOffset()
    with pytest.raises(OptionError, match="contradict each other"):
        reader(log, topicIdsInOffsets="true", failOnDataLoss="false")


def ask_end(stream: StreamBatches, start: Any) -> Any:
    if isinstance(stream, StreamReader):
        return stream.latestOffset(start, ReadAllAvailable())
    assert isinstance(stream, EarlyStreamReader)
    return stream.latestOffset()


def test_partitions_that_are_added_are_read_from_their_beginning() -> None:
    log = Log(p0=(0, 5), p1=(0, 7))
    stream = reader(log, maxOffsetsPerTrigger="1000")
    end = stream.latestOffset({"t": {"0": 5}}, ReadMaxRows(1000))
    assert tasks(stream.partitions({"t": {"0": 5}}, end)) == [OffsetRange("t", 1, 0, 7)]
    log.spans[T1] = (2, 7)
    with pytest.raises(DataLossError, match=r"Added partition t-1 starts from 2 instead of 0"):
        stream.partitions({"t": {"0": 5}}, end)


@pytest.mark.parametrize(
    "log, start, end, message, left",
    [
        (Log(p0=(0, 5)), {"0": 5, "1": 9}, {"0": 5}, r"Partitions \[t-1\] have been deleted", []),
        (Log(p0=(0, 5)), {"0": 9}, {"0": 5}, "Partition t-0 offset was changed from 9 to 5", []),
        (Log(p0=(0, 5)), {"0": 2}, {"0": 5, "1": 3}, r"Cannot find initial offsets for partitions \[t-1\]", [(2, 5)]),
    ],
)
def test_what_went_away_is_an_error_or_a_warning(
    log: Log, start: dict[str, int], end: dict[str, int], message: str, left: list[tuple[int, int]], caplog: Any
) -> None:
    with pytest.raises(DataLossError, match=message):
        reader(log).partitions({"t": start}, {"t": end})
    found = tasks(reader(log, failOnDataLoss="false").partitions({"t": start}, {"t": end}))
    assert [(each.start, each.end) for each in found] == left
    assert "failOnDataLoss is false" in caplog.text


def test_stop_lets_go_of_the_connection() -> None:
    log = Log(p0=(0, 5))
    stream = reader(log)
    stream.stop()
    assert not log.closed, "none was made"
    stream.initialOffset()
    stream.stop()
    assert log.closed
