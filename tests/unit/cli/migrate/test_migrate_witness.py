"""What is digested while records are deleted."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.cli.migrate.digests import split_range
from kafkalite.cli.migrate.evidence import PartitionBounds, RangeDigest
from kafkalite.cli.migrate.witness import Digested, Ranges, _digest_ranges, digest_while_deleted, find_group_offsets
from kafkalite.client import DigestedRange
from kafkalite.client.errors import AdminError, ClientError, ClientTimeoutError
from kafkalite.client.offsets import OffsetAndMetadata
from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BOUNDS = {each: PartitionBounds(*each, 0, 25, False) for each in (T0, T1)}


def digest(starts: list[int], refused: dict[TopicPartition, ClientError] | None = None) -> tuple[Any, list[Ranges]]:
    """Digest both partitions while the log of the first begins there after each reading; `refused` is what brokers then say."""
    read: list[Ranges] = []

    async def take(ranges: Ranges) -> Digested:
        read.append(ranges)
        if refused is not None:
            return [], refused
        return [RangeDigest(*place, *each, 1, 1, "") for place, some in ranges.items() for each in some], {}

    async def list_offsets(wanted: Any) -> Any:
        start = starts.pop(0)
        return {place: SimpleNamespace(offset=start if place == T0 else 0) for place in wanted}

    ranges = {T0: [(0, 10), (10, 20), (20, 25)], T1: [(0, 10)]}
    admin: Any = SimpleNamespace(list_offsets=list_offsets)
    return asyncio.run(digest_while_deleted(admin, take, BOUNDS, ranges)), read


def test_what_was_deleted_meanwhile_is_read_again_from_the_new_start() -> None:
    (bounds, found), read = digest([12, 20, 20])
    assert bounds == BOUNDS | {T0: PartitionBounds("t", 0, 20, 25, False)}
    assert [(each.partition, each.start, each.end) for each in found] == [(1, 0, 10), (0, 20, 25)]
    assert read[1:] == [{T0: [(12, 20), (20, 25)]}, {T0: [(20, 25)]}]
    (bounds, found), _ = digest([30, 30])
    assert bounds[T0].log_start == 30 and [each.partition for each in found] == [1]


def test_what_is_deleted_quicker_than_it_is_read_ends_with_an_error() -> None:
    with pytest.raises(ClientTimeoutError, match="t-0 are deleted quicker"):
        digest(list(range(1, 30)))


def test_offsets_that_are_not_there_though_nothing_was_deleted_end_with_the_error() -> None:
    gone = ClientError(ErrorCode.OFFSET_OUT_OF_RANGE, "digesting t-1")
    with pytest.raises(ClientError, match="digesting t-1"):
        digest([12], {T0: gone, T1: gone})


class Digesting:
    """The admin client of a cluster that has digests of all but these partitions."""

    def __init__(self, refused: dict[TopicPartition, ErrorCode]) -> None:
        self.refused = refused
        self.asked: list[tuple[Any, bool, int]] = []

    async def digest_records(self, ranges: Any, *, fresh: bool, part_offsets: int) -> list[DigestedRange]:
        self.asked.append((ranges, fresh, part_offsets))
        ((place, (start, end)),) = ranges.items()
        if place in self.refused:
            raise AdminError({str(place): ClientError(self.refused[place], f"digesting {place}")})
        parts = split_range(start, end, part_offsets)
        return [DigestedRange(place, *span, 2, *span, 7, 8, 9, f"{span[0]:032x}") for span in parts]


def test_leaders_digest_what_lies_on_their_disks_in_ranges() -> None:
    admin: Any = Digesting({T1: ErrorCode.OFFSET_OUT_OF_RANGE})
    ranges = {T0: list(split_range(500, 2100, 1000)), T1: [(0, 10)], TopicPartition("t", 2): []}
    found, refused = asyncio.run(_digest_ranges(admin, ranges))
    assert found == [
        RangeDigest("t", 0, start, end, 2, 9, f"{start:032x}")
        for start, end in ((500, 1000), (1000, 2000), (2000, 2100))
    ]
    assert list(refused) == [T1]
    assert admin.asked == [({T0: (500, 2100)}, True, 1000), ({T1: (0, 10)}, True, 1000)]
    with pytest.raises(ClientError, match="digesting t-1"):
        asyncio.run(_digest_ranges(Digesting({T1: ErrorCode.TOPIC_AUTHORIZATION_FAILED}), ranges))  # type: ignore[arg-type]


class NewCoordinator:
    """The admin client of a cluster whose coordinator lists no group yet, and has loaded them when it is asked for one."""

    async def list_groups(self) -> list[Any]:
        return []

    async def list_group_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return {TopicPartition("plain", 0): OffsetAndMetadata(7), TopicPartition("plain", 1): None}


def test_offsets_of_a_known_group_are_found_though_its_new_coordinator_does_not_list_it() -> None:
    admin: Any = NewCoordinator()
    assert asyncio.run(find_group_offsets(admin)) == {}
    assert asyncio.run(find_group_offsets(admin, {"kept"})) == {("kept", TopicPartition("plain", 0)): 7}
