"""Sizes of lists of children and of requests; `tests/contract/test_size_limits.py` holds them against a real server."""

from __future__ import annotations

from zk.size_limits import SizeLimits, list_bytes, name_bytes, operation_bytes, split_operations
from zk.store import Check, Create, Delete, Write


def test_a_list_is_as_long_as_apache_kafka_says() -> None:
    """Its broker with jute.maxbuffer=20000 read 293 topics of 64 characters; at 294 it said "Packet len 20012 is out of range"."""
    assert list_bytes("t" * 64 for _ in range(294)) == 20_012
    assert list_bytes(()) == 20
    assert name_bytes("sn\N{SNOWMAN}w") == 4 + 6


def test_limits_are_the_defaults_of_both_sides_unless_one_is_given() -> None:
    assert SizeLimits.of(None) == SizeLimits(1_048_575, 4_194_304)
    assert SizeLimits.of(None).znode_bytes == 1_048_575
    assert SizeLimits.of(20_000) == SizeLimits(20_000, 20_000)
    assert SizeLimits(request_bytes=10, response_bytes=5).znode_bytes == 5


def test_operations_are_divided_by_number_and_by_bytes() -> None:
    small = [Check("/a", 1), Delete("/a"), Create("/a"), Write("/a", b"")]
    assert list(split_operations(small, 3, 10_000)) == [small[:3], small[3:]]
    assert list(split_operations([], 3, 10_000)) == []
    large = [Write(f"/{n}", b"x" * 1000) for n in range(5)]
    each_bytes = operation_bytes(large[0])
    assert [len(some) for some in split_operations(large, 64, 2 * each_bytes)] == [2, 2, 1]
    assert [len(some) for some in split_operations(large, 64, 10)] == [1] * 5
