"""The driver's questions: which partitions, from where to where, and what is asked again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafkalite.client import ClientError, OffsetAndTimestamp, PartitionView, TopicDescription, TopicPartition
from kafkalite.client.admin.log_dirs import LogDir, LogDirReplica
from kafkalite.errors import ErrorCode
from spark_jobs import positions
from spark_jobs.options import batch_options
from spark_jobs.positions import Positions
from spark_jobs.ranges import (
    EarliestOffsets,
    GivenOffsets,
    GivenTimestamps,
    LatestOffsets,
    OffsetRange,
    OffsetsError,
    OneTimestamp,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
TIMES = {T0: [10, 20, 30], T1: [15], U0: []}
"""The times of the records of each partition, whose first offset is 100."""


class Cluster:
    """Takes the place of `SyncAdmin`; fails as often as `failures` says, and `lags` makes ends too low."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.lags: list[int] = []
        self.unknown: list[TopicPartition] = []
        """Partitions that the next answers leave out, one after the other."""
        self.connections = self.open = 0
        self.isolation_levels: set[str] = set()

    def __call__(self, **options: Any) -> Cluster:
        return self

    def connect(self) -> None:
        self.connections += 1
        self.open += 1

    def close(self) -> None:
        self.open -= 1

    def list_topics(self) -> list[str]:
        return ["t", "u"]

    def describe_topics(self, names: list[str]) -> list[TopicDescription]:
        if self.failures:
            raise self.failures.pop(0)
        partitions: dict[str, list[PartitionView]] = {name: [] for name in names}
        unknown = self.unknown.pop(0) if self.unknown else None
        for each in TIMES:
            if each.topic in partitions and each != unknown:
                partitions[each.topic].append(PartitionView(each.topic, each.partition, leader=1))
        if "__offsets" in partitions:
            partitions["__offsets"].append(PartitionView("__offsets", 0, leader=1))
        ids = {"t": "id-of-t"}
        return [
            TopicDescription(name, ids.get(name, ""), name.startswith("__"), tuple(found))
            for name, found in partitions.items()
        ]

    def describe_log_dirs(self, brokers: set[int], wanted: list[TopicPartition]) -> dict[int, tuple[LogDir, ...]]:
        assert brokers == {1}
        replicas = tuple(LogDirReplica(each, 300 if each == T0 else 0, 0, False) for each in wanted)
        return {1: (LogDir(1, "/d", None, -1, -1, (*replicas, LogDirReplica(T0, 7, 0, True))),)}

    def list_offsets(self, wanted: Mapping[TopicPartition, int | str], *, isolation_level: str) -> dict[Any, Any]:
        self.isolation_levels.add(isolation_level)
        lag = self.lags.pop(0) if self.lags else 0

        def offset(each: TopicPartition, what: int | str) -> int | None:
            if what == "earliest":
                return 100
            if what == "latest":
                return 100 + len(TIMES[each]) - lag
            return next((100 + n for n, time_ms in enumerate(TIMES[each]) if time_ms >= int(what)), None)

        found = {each: offset(each, what) for each, what in wanted.items()}
        return {each: None if at is None else OffsetAndTimestamp(at, -1) for each, at in found.items()}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()
    monkeypatch.setattr(positions, "SyncAdmin", found)
    return found


def asking(slept: list[float] | None = None, **options: str) -> Positions:
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": "t,u", **options}
    if {"assign", "subscribePattern"} & given.keys():
        del given["subscribe"]
    return Positions(batch_options(given), sleep=(slept if slept is not None else []).append)


@pytest.mark.parametrize(
    "options, found",
    [
        ({"subscribe": "t"}, {T0, T1}),
        ({"subscribe": "t,__offsets"}, {T0, T1}),
        ({"subscribePattern": "."}, {T0, T1, U0}),
        ({"subscribePattern": "^u"}, {U0}),
        ({"subscribePattern": "none"}, set()),
        ({"assign": '{"t": [1, 7], "u": [0]}'}, {T1, U0}),
    ],
)
def test_the_partitions_that_are_chosen(cluster: Cluster, options: dict[str, str], found: set[TopicPartition]) -> None:
    with asking(**options) as ask:
        assert ask.choose_partitions() == found
        assert ask.topic_ids == ({"t": "id-of-t"} if T1 in found else {})
    assert cluster.open == 0


@pytest.mark.parametrize("answers, found", [(1, {T0, T1, U0}), (2, {T0, T1, U0}), (3, {T0, U0})])
def test_a_known_partition_that_is_missing_is_asked_for_again(
    cluster: Cluster, answers: int, found: set[TopicPartition]
) -> None:
    """Another broker may know of it, so the connection is a new one."""
    cluster.unknown = [T1] * answers
    slept: list[float] = []
    with asking(slept) as ask:
        assert ask.choose_partitions({T0, T1}) == found
    assert len(slept) == min(answers, 2) == cluster.connections - 1


@pytest.mark.parametrize(
    "bound, found",
    [
        (EarliestOffsets(), {T0: 100, T1: 100}),
        (LatestOffsets(), {T0: 103, T1: 101}),
        (GivenOffsets({T0: 102, T1: -1}), {T0: 102, T1: 101}),
        (GivenOffsets({T0: -2, T1: 5}), {T0: 100, T1: 5}),
        (OneTimestamp(12), {T0: 101, T1: 100}),
        (GivenTimestamps({T0: 30, T1: 15}), {T0: 102, T1: 100}),
        (OneTimestamp(18, or_latest=True), {T0: 101, T1: 101}),
        (GivenTimestamps({T0: 31, T1: 31}, or_latest=True), {T0: 103, T1: 101}),
    ],
)
def test_what_a_start_stands_for(cluster: Cluster, bound: Any, found: dict[TopicPartition, int]) -> None:
    assert asking().resolve(bound, {T0, T1}, starting=True) == found


def test_a_start_that_no_record_matches_is_an_error_and_an_end_is_the_logs(cluster: Cluster) -> None:
    with pytest.raises(OffsetsError, match=r"No offset matched from request of topic-partition t-1 and timestamp 18\."):
        asking().resolve(OneTimestamp(18), {T0, T1}, starting=True)
    assert asking().resolve(OneTimestamp(18), {T0, T1}, starting=False) == {T0: 101, T1: 101}


def test_a_bound_for_other_partitions(cluster: Cluster) -> None:
    with pytest.raises(
        OffsetsError, match=r"Kafka start offsets don't match.*Specified: \[t-0\] Assigned: \[t-0, t-1\]"
    ):
        asking().resolve(GivenOffsets({T0: 1}), {T0, T1}, starting=True)
    with pytest.raises(OffsetsError, match=r"Kafka timestamp based ending offsets don't match"):
        asking().resolve(GivenTimestamps({T0: 1}), {T0, T1}, starting=False)


def test_a_plan(cluster: Cluster) -> None:
    ask = asking(minPartitions="4", **{"kafka.isolation.level": "read_committed"})
    assert ask.batch_ranges() == [
        OffsetRange("t", 0, 100, 101),
        OffsetRange("t", 0, 101, 102),
        OffsetRange("t", 0, 102, 103),
        OffsetRange("t", 1, 100, 101),
    ]
    assert cluster.isolation_levels == {"read_committed"}


def test_tasks_have_no_more_bytes_than_wanted(cluster: Cluster) -> None:
    """A record of the first partition has 100 bytes; of the second nobody knows."""
    found = [OffsetRange("t", 0, 100, 101), OffsetRange("t", 0, 101, 103), OffsetRange("t", 1, 100, 101)]
    assert asking(maxBytesPerPartition="250").batch_ranges() == found
    assert len(asking(maxBytesPerPartition="1").batch_ranges()) == 4
    assert len(asking(maxBytesPerPartition="300").batch_ranges()) == 2


def test_questions_are_asked_again_over_a_new_connection(cluster: Cluster) -> None:
    slept: list[float] = []
    cluster.failures = [ConnectionError("gone"), ClientError(ErrorCode.LEADER_NOT_AVAILABLE, "no leader")]
    ask = asking(slept, **{"fetchOffset.retryIntervalMs": "250"})
    assert ask.choose_partitions() == {T0, T1, U0}
    assert (slept, cluster.connections, cluster.open) == ([0.25, 0.25], 3, 1)


@pytest.mark.parametrize(
    "failures", [[ConnectionError("gone")] * 2, [ClientError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "gone")]]
)
def test_in_the_end_the_error_is_told(cluster: Cluster, failures: list[Exception]) -> None:
    cluster.failures = list(failures)
    with pytest.raises(type(failures[0]), match="gone"):
        asking(**{"fetchOffset.numRetries": "2"}).choose_partitions()
    assert cluster.failures == [] and cluster.open == 0


def test_an_end_that_went_back_is_asked_for_again(cluster: Cluster) -> None:
    cluster.lags = [2, 1]
    assert asking().latest([T0], known={T0: 103}) == {T0: 103}
    cluster.lags = [2, 2, 2]
    assert asking().latest([T0], known={T0: 103}) == {T0: 101}, "then it is so"
