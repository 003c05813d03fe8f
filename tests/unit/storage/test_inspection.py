"""`kafkalite log dump|verify|compare`: what they find in files made by the log itself, and in those files broken at every byte."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkalite.cli.main import main
from kafkalite.protocol.record_batches.compression import Codec
from kafkalite.protocol.record_batches.records import HEADER_SIZE, NewRecord, build_batch, build_marker
from kafkalite.storage import inspection
from kafkalite.storage.inspection import Damage, Depth, Row, examine, first_damage
from kafkalite.storage.producers.producer_snapshot import encode_snapshot
from kafkalite.storage.producers.producer_state import ProducedRange, Producer

NAME = "00000000000000000010"


def batch(base_offset: int, count: int = 2, timestamp: int = 1_000, codec: int = Codec.NONE, epoch: int = 3) -> bytes:
    records = [NewRecord(b"k%d" % n, b"v", timestamp + n, [("h", b"\xff")]) for n in range(count)]
    return bytes(build_batch(records, base_offset=base_offset, codec=codec, leader_epoch=epoch))


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Three batches from offset 10, the second compressed, and a commit marker."""
    path = tmp_path / f"{NAME}.log"
    marker = build_marker(
        commit=True,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=5,
        timestamp=3000,
        base_offset=16,
        leader_epoch=3,
    )
    path.write_bytes(batch(10) + batch(12, 3, 2_000, Codec.ZSTD) + batch(15, 1) + bytes(marker))
    return path


def rows(path: Path, kind: str, depth: Depth = Depth.RECORDS) -> list[dict[str, object]]:
    return [found.fields for found in examine(path, depth) if isinstance(found, Row) and found.kind == kind]


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["log", *map(str, arguments)])


def test_batches_and_records_of_a_segment(segment: Path) -> None:
    batches = rows(segment, inspection.BATCH)
    assert [each["base_offset"] for each in batches] == [10, 12, 15, 16]
    assert [each["codec"] for each in batches] == ["none", "zstd", "none", "none"]
    assert batches[1]["position"] == batches[0]["size"] and batches[3]["control"] and batches[3]["transactional"]
    records = rows(segment, inspection.RECORD)
    assert [each["offset"] for each in records] == list(range(10, 17))
    assert records[0]["key"] == b"k0" and records[0]["timestamp"] == 1_000
    assert (records[-1]["marker"], records[-1]["coordinator_epoch"]) == ("commit", 5)
    assert not rows(segment, inspection.RECORD, Depth.HEADERS)
    assert first_damage(segment) is None


def test_every_flipped_byte_is_found(segment: Path) -> None:
    sound = segment.read_bytes()
    starts = [row["position"] for row in rows(segment, inspection.BATCH)]
    for position in range(len(sound)):
        broken = bytearray(sound)
        broken[position] ^= 0x80
        segment.write_bytes(broken)
        damage = first_damage(segment)
        start = max(start for start in starts if isinstance(start, int) and start <= position)
        if position - start in range(8) or position - start in range(12, 16):
            # Base offset and leader epoch lie before what the CRC covers; later ones or an earlier epoch may be legal.
            assert damage is None or damage.position in starts
        else:
            assert damage is not None and damage.position == start, f"byte {position}"


def test_every_cut_is_found(segment: Path) -> None:
    sound = segment.read_bytes()
    starts = [*(row["position"] for row in rows(segment, inspection.BATCH)), len(sound)]
    for size in range(len(sound)):
        segment.write_bytes(sound[:size])
        damage = first_damage(segment)
        if size in starts:
            assert damage is None
        else:
            assert damage is not None
            assert damage.position == max(start for start in starts if isinstance(start, int) and start <= size)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"\0" * 100, "100 bytes behind the last batch, beginning with zeros"),
        (b"\0" * 9, "9 bytes behind the last batch, fewer than a header has"),
        (batch(12)[:-1], "batch at offset 12 is cut"),
        (batch(12)[:16] + b"\3" + batch(12)[17:], "magic 3"),
        (batch(11), "batch at offset 11 where 12 or more was due"),
        (batch(12, epoch=2), "leader epoch 2 after 3"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, tail: bytes, reason: str) -> None:
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(batch(10) + tail)
    damage = first_damage(path)
    assert damage is not None and reason in damage.reason and damage.position == len(batch(10))


def test_a_batch_before_the_segments_base_offset_is_damage(tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(batch(9))
    damage = first_damage(path)
    assert damage == Damage(path, 0, "batch at offset 9 where 10 or more was due")


def test_records_behind_a_right_crc_are_checked(tmp_path: Path) -> None:
    whole = build_batch([NewRecord(b"k", b"v", 1)], base_offset=10)
    bad = bytearray(whole)
    bad[HEADER_SIZE] += 2  # the length of the record
    from kafkalite.protocol.record_batches.records import BatchHeader, crc_of

    struct.pack_into(">I", bad, 17, crc_of(bad, BatchHeader.read(bad)))
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(bad)
    damage = first_damage(path)
    assert damage is not None and damage.position == 0 and "cannot be read" in damage.reason
    assert isinstance(next(examine(path)), Row), "the header is shown all the same"


def test_compacted_batches_have_gaps(tmp_path: Path) -> None:
    whole = bytearray(batch(10, 1))
    struct.pack_into(">i", whole, 23, 5)  # the last offset stays when records before it are compacted away
    from kafkalite.protocol.record_batches.records import BatchHeader, crc_of

    struct.pack_into(">I", whole, 17, crc_of(whole, BatchHeader.read(whole)))
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(whole)
    assert first_damage(path) is None


def offset_entries(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def test_offset_indexes(segment: Path) -> None:
    index = segment.with_suffix(".index")
    second, third = (row["position"] for row in rows(segment, inspection.BATCH)[1:3])
    assert isinstance(second, int) and isinstance(third, int)
    index.write_bytes(offset_entries((4, second), (5, third)))
    assert first_damage(index) is None
    assert rows(index, inspection.OFFSET_ENTRY)[1] == {"position": 8, "offset": 15, "log_position": third}
    index.write_bytes(offset_entries((4, second), (5, third)) + bytes(80))
    assert first_damage(index) is None, "allotted in advance by Kafka"
    for content, position, reason in [
        (offset_entries((5, third), (4, second)), 8, "entries must grow"),
        (offset_entries((4, second), (5, third)) + b"\0\0\0", 16, "3 bytes behind"),
        (offset_entries((4, second + 1)), 0, "no batch begins at byte"),
        (offset_entries((4, third)), 0, "has offsets 15 to 15"),
    ]:
        index.write_bytes(content)
        damage = first_damage(index)
        assert damage is not None and damage.position == position and reason in damage.reason


def test_time_indexes(segment: Path) -> None:
    index = segment.with_suffix(".timeindex")

    def entries(*pairs: tuple[int, int]) -> bytes:
        return b"".join(struct.pack(">qi", *pair) for pair in pairs)

    index.write_bytes(entries((1_001, 1), (2_002, 4)))
    assert first_damage(index) is None
    assert rows(index, inspection.TIME_ENTRY)[0] == {"position": 0, "timestamp": 1_001, "offset": 11}
    for content, position, reason in [
        (entries((1_001, 1), (1_001, 4)), 12, "entries must grow"),
        (entries((1_000, 1)), 0, "a record up to offset 11 has timestamp 1001"),
        (entries((1_001, 1), (9_000, 90)), 12, "which the segment does not have"),
        (entries((1_001, 1))[:-1], 0, "11 bytes behind"),
    ]:
        index.write_bytes(content)
        damage = first_damage(index)
        assert damage is not None and damage.position == position and reason in damage.reason


def test_transaction_indexes(tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.txnindex"
    entry = struct.pack(">hqqqq", 0, 7, 11, 14, 11)
    path.write_bytes(entry)
    (found,) = rows(path, inspection.TRANSACTION)
    assert (found["producer_id"], found["first_offset"], found["last_offset"]) == (7, 11, 14)
    assert first_damage(path) is None
    path.write_bytes(entry * 2)
    damage = first_damage(path)
    assert damage is not None and damage.position == 34
    path.write_bytes(struct.pack(">hqqqq", 9, 7, 11, 14, 11))
    damage = first_damage(path)
    assert damage is not None and "version 9" in damage.reason


def test_transaction_indexes_are_compared_with_markers(tmp_path: Path) -> None:
    segment, index = tmp_path / f"{NAME}.log", tmp_path / f"{NAME}.txnindex"
    fields: dict[str, Any] = {"attributes": 0x10, "producer_epoch": 0}
    parts, offset = [], int(NAME)
    for producer, ends in ((7, None), (8, None), (7, False), (8, True), (7, None), (7, False), (9, False), (9, None)):
        if ends is None:
            records = [NewRecord(b"k", b"v", 1)]
            parts.append(build_batch(records, base_offset=offset, producer_id=producer, base_sequence=0, **fields))
        else:
            marker = {"producer_id": producer, "producer_epoch": 0, "coordinator_epoch": 0, "timestamp": 1}
            parts.append(build_marker(commit=ends, base_offset=offset, **marker))
        offset += 1
    segment.write_bytes(b"".join(parts))

    def entry(producer: int, first: int, marker: int) -> bytes:
        return struct.pack(">hqqqq", 0, producer, first, marker, marker)

    def damage_of(*entries: bytes) -> tuple[str, str]:
        index.write_bytes(b"".join(entries))
        return str(first_damage(segment) or ""), str(first_damage(index) or "")

    first, second = entry(7, 10, 12), entry(7, 14, 15)
    assert damage_of(first, second) == ("", "")
    of_segment, of_index = damage_of(first)
    assert "from offset 14 that the marker at 15 aborts is not in" in of_segment and not of_index
    assert "offset 13 has no marker that aborts" in damage_of(entry(7, 10, 13), second)[1]
    assert "offset 12 has no marker that aborts" in damage_of(entry(8, 11, 12), second)[1]
    assert "began at 10 or before, not at 11" in damage_of(entry(7, 11, 12), second)[1]
    index.unlink()
    assert "from offset 10 that the marker at 12" in str(first_damage(segment))


def test_snapshots(tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.snapshot"
    sound = encode_snapshot([Producer(7, 1, 1_000, 2, None, [ProducedRange(9, 29, 4, 1_000)])])
    path.write_bytes(sound)
    (found,) = rows(path, inspection.PRODUCER)
    assert (found["producer_id"], found["first_sequence"], found["last_offset"]) == (7, 5, 29)
    for position in range(len(sound)):
        broken = bytearray(sound)
        broken[position] ^= 1
        path.write_bytes(broken)
        assert first_damage(path) is not None


def test_checkpoints(tmp_path: Path) -> None:
    epochs = tmp_path / "leader-epoch-checkpoint"
    epochs.write_text("0\n2\n0 0\n3 10\n")
    assert rows(epochs, inspection.EPOCH) == [{"epoch": 0, "start_offset": 0}, {"epoch": 3, "start_offset": 10}]
    for text, position in [("0\n2\n0 0\n3 x\n", 8), ("0\n2\n3 10\n0 11\n", 9), ("0\n3\n0 0\n", 2), ("7\n0\n", 0)]:
        epochs.write_text(text)
        damage = first_damage(epochs)
        assert damage is not None and damage.position == position, text
    offsets = tmp_path / "recovery-point-offset-checkpoint"
    offsets.write_text("0\n1\nt 4 17\n")
    assert rows(offsets, inspection.CHECKPOINT) == [{"topic": "t", "partition": 4, "offset": 17}]


def test_dump_as_a_table_and_as_lines(segment: Path) -> None:
    result = call("dump", segment)
    assert result.exit_code == 0 and result.stdout.startswith(f"# {segment}\nPOSITION  SIZE  BASE OFFSET  LAST OFFSET")
    assert len(result.stdout.splitlines()) == 6
    lines = [json.loads(line) for line in call("dump", "--records", "-o", "jsonl", segment).stdout.splitlines()]
    assert [line["kind"] for line in lines[:3]] == ["batch", "record", "record"]
    assert lines[1]["key"] == "k0" and lines[1]["headers"] == [["h", {"base64": "/w=="}]]
    table = call("dump", "--records", segment).stdout
    assert '"k0"' in table and "commit" in table


def test_dump_goes_on_behind_a_wrong_crc(segment: Path) -> None:
    content = bytearray(segment.read_bytes())
    content[HEADER_SIZE + 3] ^= 1
    segment.write_bytes(content)
    result = call("dump", segment, "-o", "jsonl")
    assert result.exit_code == 7 and "at byte 0" in result.stderr
    assert [json.loads(line)["crc_valid"] for line in result.stdout.splitlines()] == [False, True, True, True]


def test_verify_says_file_byte_and_reason(segment: Path) -> None:
    assert call("verify", segment).stdout == f"{segment}: sound\n"
    content = segment.read_bytes()
    segment.write_bytes(content[:-1])
    start = rows(segment, inspection.BATCH)[-1]
    result = call("verify", segment.parent, "-o", "jsonl")
    assert result.exit_code == 7
    found = json.loads(result.stdout)
    assert found["file"] == str(segment) and found["sound"] is False and "is cut" in found["reason"]
    assert isinstance(start["position"], int) and isinstance(start["size"], int)
    assert found["position"] == start["position"] + start["size"]
    assert call("verify", "-q", segment).stdout == f"{segment}: at byte {found['position']}: {found['reason']}\n"


def test_other_files_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("x")
    assert call("dump", other).exit_code == 1
    assert call("verify", tmp_path / "missing.log").exit_code == 2
    assert call("verify", tmp_path).exit_code == 0, "what is no log file is left out of a directory"


def test_compare_tells_brokers_by_their_meta_properties(tmp_path: Path) -> None:
    for broker, epoch in ((1, 0), (2, 0), (3, 1)):
        directory = tmp_path / f"d{broker}" / "t-0"
        directory.mkdir(parents=True)
        (directory / "00000000000000000000.log").write_bytes(batch(0, epoch=epoch))
        (tmp_path / f"d{broker}" / "meta.properties").write_text(f"version=0\nbroker.id={broker}\n")
    assert call("compare", tmp_path / "d1", tmp_path / "d2").exit_code == 0
    result = call("compare", tmp_path / "d1", tmp_path / "d3", "-o", "json")
    assert result.exit_code == 7
    found = json.loads(result.stdout)
    assert found["equal"] is False and "brokers 1 and 3 differ" in found["differences"]["t-0"][0]
    assert call("compare", tmp_path / "d1", "-p", "what").exit_code == 2
