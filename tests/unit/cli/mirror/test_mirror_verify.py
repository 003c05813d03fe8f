"""What of two clusters is compared, what is not, and how that is told. How differences are found: test_mirror_differences."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kafkalite.cli.migrate.evidence import PartitionBounds
from kafkalite.cli.mirror.comparison import verifying
from kafkalite.cli.mirror.comparison.differences import Difference
from kafkalite.cli.mirror.comparison.verifying import Compared, Comparer, Comparison, Side, plan_comparison
from kafkalite.cli.mirror.plan import KnownTopic
from kafkalite.client import DigestedRange
from kafkalite.client.errors import ClientError
from kafkalite.errors import ErrorCode
from kafkalite.protocol.record_batches.record_digest import hash_record
from kafkalite.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
KNOWN = {"t": KnownTopic("s", "d")}


def side(topic_id: str, *bounds: PartitionBounds) -> Side:
    return Side({"t": topic_id}, {TopicPartition(each.topic, each.partition): each for each in bounds})


def bounds_of(partition: int = 0, start: int = 0, end: int = 10, stable: int | None = None) -> PartitionBounds:
    return PartitionBounds("t", partition, start, end, False, stable=end if stable is None else stable)


def plan_of(source: PartitionBounds, target: PartitionBounds) -> Comparison:
    return plan_comparison(KNOWN, side("s", source), side("d", target))


def test_what_both_sides_have_is_compared() -> None:
    plan = plan_of(bounds_of(), bounds_of())
    assert (plan.ranges, plan.problems, plan.notes) == ({T0: (0, 10)}, {}, [])


def test_the_target_goes_on_after_the_switch() -> None:
    plan = plan_of(bounds_of(), bounds_of(end=13, stable=11))
    assert (plan.ranges, plan.problems) == ({T0: (0, 10)}, {})
    assert plan.notes == ["t-0: offsets 10 to 12 are in the target only, which takes records since the switch"]


def test_records_that_the_target_has_not_got_are_a_problem() -> None:
    plan = plan_of(bounds_of(end=13), bounds_of())
    assert (plan.ranges, plan.problems) == ({T0: (0, 10)}, {T0: "the source ends at offset 13, the target at 10"})


def test_what_retention_has_left_on_one_side_is_noted() -> None:
    plan = plan_of(bounds_of(start=4), bounds_of())
    assert plan.ranges == {T0: (4, 10)}
    assert plan.notes == [
        "t-0: offsets 0 to 3 are in the target only, as retention or DeleteRecords leave them, and not compared"
    ]
    emptied = plan_of(bounds_of(), bounds_of(start=10))
    assert emptied.ranges == {T0: (10, 10)} and "0 to 9 are in the source only" in emptied.notes[0]


def test_open_transactions_are_not_compared() -> None:
    plan = plan_of(bounds_of(), bounds_of(stable=7))
    assert plan.ranges == {T0: (0, 7)}
    assert plan.notes == ["t-0: a transaction is open since offset 7, and what is behind it not compared"]
    unknown = plan_of(replace(bounds_of(), stable=None), bounds_of())
    assert unknown.ranges == {T0: (0, 10)}


def test_topics_and_partitions_that_are_not_those_of_the_mirror() -> None:
    both = side("s", bounds_of()), side("d", bounds_of())
    nothing = Side({}, {})
    assert plan_comparison(KNOWN, nothing, both[1]).problems == {("t", None): "not in the source any more"}
    assert plan_comparison(KNOWN, both[0], nothing).problems == {("t", None): "not in the target any more"}
    again = plan_comparison(KNOWN, both[0], side("e", bounds_of()))
    assert (again.ranges, again.problems) == ({}, {("t", None): "deleted in the target and made again"})
    more = side("s", bounds_of(), bounds_of(1))
    assert plan_comparison(KNOWN, more, both[1]).problems == {T1: "not in the target"}
    added = plan_comparison(KNOWN, both[0], side("d", bounds_of(), bounds_of(1)))
    assert (added.problems, added.notes) == ({}, ["t-1 is in the target only: it was added there since the switch"])
    unsure = plan_comparison({"t": KnownTopic("s", "d", is_unconfirmed=True)}, *both)
    assert (unsure.ranges, unsure.problems, len(unsure.notes)) == ({}, {}, 1)


class Digesting:
    """An admin client of a cluster whose partition has these values by offset."""

    def __init__(self, log: Mapping[int, bytes], refused: ErrorCode | None = None) -> None:
        self.log, self.refused = log, refused
        self.fresh: set[bool] = set()

    async def digest_records(self, ranges: Mapping[TopicPartition, tuple[int, int]], *, fresh: bool) -> Any:
        if self.refused is not None:
            raise ClientError(self.refused, "digesting t-0")
        self.fresh.add(fresh)
        ((place, (start, end)),) = ranges.items()
        some = [offset for offset in self.log if start <= offset < end]
        total = sum(hash_record(offset, 0, None, self.log[offset]) for offset in some) % (1 << 128)
        ends = (min(some), max(some), 0, 0) if some else (None, None, None, None)
        return [DigestedRange(place, start, end, len(some), *ends, 0, f"{total:032x}")]


LOG = {offset: b"%d" % offset for offset in range(40) if offset != 20}


def compare(source: Digesting, target: Digesting) -> tuple[list[Difference], Comparer]:
    comparer = Comparer(source, target, fresh=True)  # type: ignore[arg-type]
    return asyncio.run(comparer.compare(T0, 2, 40)), comparer


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalite.cli.mirror.comparison.differences.CHUNK_OFFSETS", 16)


def test_both_sides_are_asked_and_the_records_counted() -> None:
    source, target = Digesting(LOG), Digesting(dict(LOG))
    found, comparer = compare(source, target)
    assert (found, comparer.records, comparer.problems) == ([], {T0: 37}, {})
    assert source.fresh == target.fresh == {True}


def test_differences_have_their_offsets() -> None:
    changed = {offset: value for offset, value in LOG.items() if offset not in (7, 8)} | {30: b"other"}
    found, comparer = compare(Digesting(LOG), Digesting(changed))
    assert found == [Difference(7, 9, 2, 0), Difference(30, 31, 1, 1, is_change=True)]
    assert comparer.records == {T0: 37}, "however often they were asked for"


def test_a_partition_that_cannot_be_compared_is_told() -> None:
    found, comparer = compare(Digesting(LOG), Digesting(LOG, ErrorCode.CORRUPT_MESSAGE))
    assert found == [] and list(comparer.problems) == [T0]
    assert comparer.problems[T0].startswith("not compared: ")


def test_what_compaction_explains_is_no_problem() -> None:
    plan = Comparison(compacted={T0})
    found = [Difference(3, 9, 4, 2), Difference(12, 13, 1, 1, is_change=True), Difference(20, 21, 0, 1)]
    assert verifying.leave_out_compacted(plan, T1, found) == found and plan.notes == []
    assert verifying.leave_out_compacted(plan, T0, found) == [found[1]]
    assert plan.notes == ["t-0: 2 ranges where one side has more records, as compaction may leave them, prove nothing"]


def test_each_problem_is_a_row_and_so_is_each_partition_without_any() -> None:
    plan = Comparison(ranges={T0: (0, 10), T1: (5, 9)}, problems={("u", None): "not in the target any more"})
    compared = Compared({T0: 10, T1: 4}, {T0: [Difference(3, 4, 1, 0), Difference(6, 7, 1, 1)], T1: []}, {})
    rows = [tuple(row.values()) for row in verifying._list_rows(compared, plan)]
    assert rows == [
        ("u", None, None, None, None, None, "not in the target any more"),
        ("t", 0, 3, 4, 1, 0, "1 record missing in the target"),
        ("t", 0, 6, 7, 1, 1, "1 record with other contents"),
        ("t", 1, 5, 9, 4, 4, None),
    ]
    failed = Compared({T0: 10, T1: 4}, {T0: [], T1: []}, {T0: "not compared: timed out"})
    assert [row["problem"] for row in verifying._list_rows(failed, plan)][1] == "not compared: timed out"
