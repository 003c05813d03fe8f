"""Sizes of logs: what the driver asks brokers, what it makes of it, and what happens where they do not tell."""

from __future__ import annotations

from datetime import date, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.client import ClientError, PartitionView, TopicDescription, TopicPartition
from kafkalite.client.admin.log_dirs import LogDir, LogDirReplica
from kafkalite.errors import ErrorCode
from spark_jobs.batch.cluster_log import ClusterLog
from spark_jobs.batch.night import find_record_bytes, with_sizes
from spark_jobs.batch.plan import LogBounds, RunPlan
from spark_jobs.jobs.audit import group_days
from spark_jobs.log_sizes import find_log_bytes
from spark_jobs.observation.stage_progress import part_read

DAY = date(2013, 6, 15)
BOUNDS = LogBounds("t", "id", {0: 10, 1: 5, 2: 0}, {0: 20, 1: 5, 2: 4})


class Admin:
    """Two brokers; the first leads partition 0 and has a replica of 2, which the second leads; nobody leads 1."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.problem: ClientError | None = None

    def describe_topics(self, names: list[str]) -> list[TopicDescription]:
        partitions = tuple(PartitionView("t", number, leader) for number, leader in enumerate((1, -1, 2)))
        return [TopicDescription(name, "id", False, partitions) for name in names]

    def describe_log_dirs(self, brokers: set[int], wanted: list[TopicPartition]) -> dict[int, tuple[LogDir, ...]]:
        self.asked.append((brokers, wanted))
        if self.problem is not None:
            raise self.problem

        def directory(broker: int, *replicas: tuple[int, int, bool]) -> LogDir:
            found = (LogDirReplica(TopicPartition("t", p), size, 0, future) for p, size, future in replicas)
            return LogDir(broker, f"/d{broker}", None, -1, -1, tuple(found))

        return {
            1: (directory(1, (0, 1001, False), (2, 1, False)), directory(1, (0, 3, True))),
            2: (directory(2, (2, 40, False)),),
        }


def log_of(admin: Admin) -> ClusterLog:
    log = ClusterLog.__new__(ClusterLog)
    log._admin = admin  # type: ignore[assignment]
    return log


def test_the_leaders_are_asked_and_their_replicas_count() -> None:
    admin = Admin()
    wanted = [TopicPartition("t", number) for number in range(3)]
    assert find_log_bytes(admin, wanted) == {TopicPartition("t", 0): 1001, TopicPartition("t", 2): 40}  # type: ignore[arg-type]
    assert admin.asked == [({1, 2}, wanted)]
    assert find_log_bytes(admin, []) == {} and len(admin.asked) == 1  # type: ignore[arg-type]


def test_the_average_is_that_of_all_offsets_which_the_log_has() -> None:
    assert log_of(Admin()).record_bytes(BOUNDS) == {0: 101, 2: 10}


def test_new_plans_have_the_sizes_of_their_time() -> None:
    night: Any = SimpleNamespace(log=log_of(Admin()))
    (plan,) = with_sizes(night, BOUNDS, [RunPlan("t", "id", DAY, {0: (10, 20)}, {0: 20})])
    assert plan.record_bytes == {0: 101, 2: 10}


def test_a_user_who_may_not_know_sizes_has_tasks_by_offsets_and_is_told() -> None:
    admin, told = Admin(), []
    admin.problem = ClientError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not authorized to describe the cluster")
    night: Any = SimpleNamespace(log=log_of(admin), tell_once=told.append)
    assert find_record_bytes(night, BOUNDS) == {}
    assert len(told) == 1 and "by numbers of records alone" in told[0] and "not authorized" in told[0]


@pytest.mark.parametrize(
    "count, partitions, sizes", [(365, 100, [365]), (365, 1000, [41] * 8 + [37]), (3, 10**6, [1] * 3)]
)
def test_audits_of_many_days_are_bounded(count: int, partitions: int, sizes: list[int]) -> None:
    days = [DAY + timedelta(days=number) for number in range(count)]
    groups = group_days(days, partitions)
    assert [len(each) for each in groups] == sizes
    assert [day for each in groups for day in each] == days
    assert group_days([], partitions) == []


def test_offsets_that_completed_tasks_have_read() -> None:
    assert [part_read(done, 4, 1000) for done in (0, 1, 4, 5)] == [0, 250, 1000, 1000]
    assert part_read(0, 0, 0) == 0
