"""Which partition a record goes to."""

from __future__ import annotations

import mmh3
import pytest

from kafkalite.client.producer.partitioner import Partitioner
from kafkalite.protocol.murmur2 import murmur2
from kafkalite.protocol.record_batches.record_code import choose_partition
from tests.unit.client.java_vectors import KEYS, PARTITION_COUNT, recorded_partitions

ALL = (0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize("choice", ["murmur2", "round_robin"])
def test_null_keys_go_round_robin_from_0(choice: str) -> None:
    partitioner = Partitioner(choice)
    assert [partitioner.partition("t", None, ALL, ALL) for _ in range(8)] == [0, 1, 2, 3, 4, 5, 0, 1]
    assert partitioner.partition("u", None, ALL, ALL) == 0, "each topic has its own turn"


def test_null_keys_avoid_partitions_without_leader() -> None:
    partitioner = Partitioner()
    assert [partitioner.partition("t", None, ALL, (1, 4)) for _ in range(4)] == [1, 4, 1, 4]
    assert partitioner.partition("t", None, ALL, ()) in ALL


def test_sticky_null_keys_stay_until_a_batch_is_full() -> None:
    partitioner = Partitioner("sticky")
    assert [partitioner.partition("t", None, ALL, ALL) for _ in range(3)] == [0, 0, 0]
    partitioner.batch_filled("t")
    assert [partitioner.partition("t", None, ALL, ALL) for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("choice", ["murmur2", "round_robin", "sticky"])
def test_keys_go_where_java_puts_them(choice: str) -> None:
    partitioner = Partitioner(choice)
    for key in (b"", b"a", b"N14228", b"k" * 100):
        assert partitioner.partition("t", key, ALL, ()) == (murmur2(key) & 0x7FFFFFFF) % 6 == choose_partition(key, 6)


def test_murmur3_is_that_of_mmh3() -> None:
    assert Partitioner("murmur3").partition("t", b"key", ALL, ALL) == mmh3.hash(b"key", signed=False) % 6


def test_a_callable_gets_key_and_partitions() -> None:
    seen = []

    def choose(key: bytes | None, partitions: object, available: object) -> int:
        seen.append((key, partitions, available))
        return 3

    assert Partitioner(choose).partition("t", b"k", ALL, (1,)) == 3
    assert seen == [(b"k", ALL, (1,))]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="no partitioner 'random'"):
        Partitioner("random")


def test_partitions_of_ten_thousand_keys_are_javas() -> None:
    ours = [choose_partition(key, PARTITION_COUNT) for key in KEYS]
    assert len(ours) == 10_000
    assert ours == recorded_partitions()
