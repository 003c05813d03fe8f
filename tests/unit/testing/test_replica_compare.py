"""Replicas are compared by their batches, however those are spread over segments."""

from __future__ import annotations

from pathlib import Path

from kafkalite.protocol.record_batches.records import NewRecord, build_batch
from kafkalite.testing.history.replicas import compare_replicas, partition_directories
from kafkalite.types import TopicPartition


def batch(base_offset: int, leader_epoch: int = 0, value: bytes = b"v") -> bytes:
    records = [NewRecord(b"k", value, 1_000), NewRecord(None, None, 1_001)]
    return bytes(build_batch(records, base_offset=base_offset, leader_epoch=leader_epoch))


def replica(root: Path, broker: int, segments: dict[int, list[bytes]], name: str = "t-0") -> None:
    directory = root / str(broker) / name
    directory.mkdir(parents=True, exist_ok=True)
    for base_offset, batches in segments.items():
        (directory / f"{base_offset:020}.log").write_bytes(b"".join(batches))


def compare(root: Path, *brokers: int) -> list[str]:
    found = compare_replicas({broker: [root / str(broker)] for broker in brokers})
    return found.differences.get(TopicPartition("t", 0), [])


def test_equal_batches_in_other_segments_are_equal(tmp_path: Path) -> None:
    replica(tmp_path, 1, {0: [batch(0), batch(2)], 4: [batch(4, 1)]})
    replica(tmp_path, 2, {0: [batch(0)], 2: [batch(2), batch(4, 1)]})
    found = compare_replicas({1: [tmp_path / "1"], 2: [tmp_path / "2"]})
    assert found.equal
    assert (found.replicas, found.batches) == (2, 6)
    assert str(found) == f"2 replicas with 6 batches, {2 * sum(map(len, [batch(0), batch(2), batch(4)]))} bytes: equal"


def test_a_replica_may_begin_later(tmp_path: Path) -> None:
    replica(tmp_path, 1, {0: [batch(0)], 2: [batch(2), batch(4)]})
    replica(tmp_path, 2, {2: [batch(2), batch(4)]})
    assert compare(tmp_path, 1, 2) == []


def test_names_the_first_difference(tmp_path: Path) -> None:
    replica(tmp_path, 1, {0: [batch(0), batch(2), batch(4)]})
    replica(tmp_path, 2, {0: [batch(0), batch(2, 1), batch(4, 1)]})
    (text,) = compare(tmp_path, 1, 2)
    assert text.startswith("brokers 1 and 2 differ: the batch at 2 of epoch 0")


def test_a_batch_more_is_a_difference(tmp_path: Path) -> None:
    replica(tmp_path, 1, {0: [batch(0)]})
    replica(tmp_path, 2, {0: [batch(0), batch(2)]})
    (text,) = compare(tmp_path, 1, 2)
    assert text.startswith("only broker 2, of 1 and 2, has the batch at 2")


def test_faults_within_a_replica_are_named(tmp_path: Path) -> None:
    damaged = bytearray(batch(2))
    damaged[-1] ^= 1
    replica(tmp_path, 1, {0: [batch(0, 3), bytes(damaged), batch(2, 3)], 9: [batch(9, 3)[:-1]]})
    texts = compare(tmp_path, 1)
    assert [text.partition(": ")[2] for text in texts] == [
        "the batch at 2 has a wrong checksum",
        "the batch at 2 goes back to epoch 0",
        "the batch at 2 comes after offset 3",
        f"{len(batch(9)) - 1} bytes behind the last batch",
    ]


def test_bytes_that_are_no_batch_are_a_fault(tmp_path: Path) -> None:
    replica(tmp_path, 1, {0: [batch(0), bytes(100)]})
    (text,) = compare(tmp_path, 1)
    assert text.endswith("100 bytes behind the last batch")


def test_only_replicas_in_use_count(tmp_path: Path) -> None:
    for name in ("t-0", "a-b-12", "t-1.0123456789abcdef0123456789abcdef-delete", "t-2.ab-future", "notes"):
        replica(tmp_path, 1, {0: [batch(0)]}, name)
    assert set(partition_directories([tmp_path / "1"])) == {TopicPartition("t", 0), TopicPartition("a-b", 12)}
