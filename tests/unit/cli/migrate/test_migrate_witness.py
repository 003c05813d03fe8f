"""What is digested while records are deleted."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.cli.migrate.evidence import PartitionBounds, RangeDigest
from kafkalite.cli.migrate.witness import Ranges, digest_while_deleted, find_group_offsets
from kafkalite.client.errors import ClientTimeoutError
from kafkalite.client.offsets import OffsetAndMetadata
from kafkalite.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BOUNDS = {each: PartitionBounds(*each, 0, 25, False) for each in (T0, T1)}


def digest(starts: list[int]) -> tuple[Any, list[Ranges]]:
    """Digest both partitions while the log of the first begins there after each reading."""
    read: list[Ranges] = []

    async def take(ranges: Ranges) -> list[RangeDigest]:
        read.append(ranges)
        return [RangeDigest(*place, *each, 1, "", "") for place, some in ranges.items() for each in some]

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
