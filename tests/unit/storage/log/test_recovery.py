"""What is found in a directory after a crash, a clean stop, or another broker."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kafkalite.config.topic import TopicConfig
from kafkalite.protocol.record_batches.records import TRANSACTIONAL, BatchHeader, build_marker, iter_batches
from kafkalite.storage.disk import OsDisk
from kafkalite.storage.log.append_checks import AppendOrigin
from tests.unit.storage.logs import (
    NOW_MS,
    all_bytes,
    append,
    batch,
    check_files,
    headers_of,
    new_log,
    produced,
    reopened,
)


def last_segment(log):
    return Path(log.segments.active.path)


def test_whatever_byte_the_last_batch_is_cut_at_all_before_it_stays(tmp_path):
    log = new_log(tmp_path)
    for _ in range(3):
        append(log, batch(2))
    whole = all_bytes(log)
    last = headers_of(log)[-1]
    for cut in range(last.position, len(whole)):
        last_segment(log).write_bytes(whole[:cut])
        log = reopened(log, clean=False, recovery_point=0)
        assert all_bytes(log) == whole[: last.position] and log.log_end_offset == 4
        check_files(log)


def test_whatever_byte_of_the_last_batch_is_changed_it_goes(tmp_path):
    log = new_log(tmp_path)
    for _ in range(3):
        append(log, batch(2))
    whole = all_bytes(log)
    last = headers_of(log)[-1]
    covered_elsewhere = {*range(last.position, last.position + 8), *range(last.position + 12, last.position + 16)}
    for position in range(last.position, len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        last_segment(log).write_bytes(damaged)
        log = reopened(log, clean=False, recovery_point=0)
        if position not in covered_elsewhere:  # base offset and leader epoch are not under the CRC
            assert all_bytes(log) == whole[: last.position]
        check_files(log)


def test_zeros_behind_the_end_are_no_batches(tmp_path):
    log = new_log(tmp_path)
    append(log, batch(5))
    whole = all_bytes(log)
    for zeros in (1, 11, 12, 60, 61, 5000):
        last_segment(log).write_bytes(whole + bytes(zeros))
        log = reopened(log, clean=False)
        assert all_bytes(log) == whole


def test_damage_in_an_early_segment_ends_the_log_there(tmp_path):
    log = new_log(tmp_path, TopicConfig(segment_bytes=200))
    for _ in range(9):
        append(log)
    assert len(log.segments) > 3
    second = log.segments[1]
    with open(second.path, "r+b") as file:
        file.seek(70)
        file.write(b"\xff\xff")
    log = reopened(log, clean=False, recovery_point=0)
    assert len(log.segments) == 2 and log.log_end_offset == second.base_offset
    assert sorted(path.name for path in Path(log.directory).glob("*.log")) == [Path(s.path).name for s in log.segments]
    append(log)
    check_files(log)


@pytest.mark.parametrize(("policy", "is_sparse"), [("delete", False), ("delete", True), ("compact", False)])
def test_a_segment_without_its_last_batches_ends_the_log_unless_batches_may_be_missing(tmp_path, policy, is_sparse):
    """A power failure took the end of a full segment and left what the next one had already: a replica with a hole could lead."""
    log = new_log(tmp_path, TopicConfig(segment_bytes=200, cleanup_policy=(policy,)))
    for number in range(9):
        sparse = number + 1 if is_sparse and number else number
        log.append_as_follower(batch(base_offset=sparse), now_ms=NOW_MS)
    second = log.segments[1]
    first_batch, *others = second.headers()
    assert others and len(log.segments) > 3
    os.truncate(second.path, first_batch.end)
    end = log.log_end_offset
    log = reopened(log, clean=False, recovery_point=0)
    assert log.log_end_offset == (first_batch.next_offset if (policy, is_sparse) == ("delete", False) else end)
    check_files(log)


def test_what_lies_below_the_recovery_point_is_not_read_again(tmp_path):
    log = new_log(tmp_path, TopicConfig(segment_bytes=200))
    for _ in range(9):
        append(log)
    log.flush()
    first = log.segments[0]
    with open(first.path, "r+b") as file:
        file.seek(70)
        file.write(b"\xff\xff")
    log = reopened(log, clean=False, recovery_point=log.log_end_offset)
    assert log.log_end_offset == 9


def test_a_large_batch_is_checked_in_pieces(tmp_path):
    log = new_log(tmp_path)
    config = TopicConfig(max_message_bytes=10_000_000)
    log.config = config
    append(log, batch(3, value=os.urandom(1_000_000)))
    append(log, batch(1))
    log = reopened(log, clean=False, recovery_point=0)
    assert log.log_end_offset == 4
    with open(log.segments.active.path, "r+b") as file:
        file.seek(2_999_000)
        file.write(b"\x00" * 10)
    assert reopened(log, clean=False, recovery_point=0).log_end_offset == 0


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("clean", [True, False])
def test_missing_indexes_are_written_again(tmp_path, suffix, clean):
    log = new_log(tmp_path, TopicConfig(segment_bytes=1000, index_interval_bytes=0))
    for number in range(30):
        append(log, batch(1, timestamp=NOW_MS + number))
    log.close()
    before = {path.name: path.read_bytes() for path in Path(log.directory).glob("*index")}
    for path in Path(log.directory).glob(f"*{suffix}"):
        path.unlink()
    log = reopened(log, clean=clean)
    assert {path.name: path.read_bytes() for path in Path(log.directory).glob("*index")} == before
    check_files(log)


def test_indexes_that_another_broker_filled_with_zeros_are_written_again(tmp_path):
    """Kafka allots the active segment's indexes in advance and dies without trimming them."""
    log = new_log(tmp_path, TopicConfig(index_interval_bytes=0))
    for _ in range(10):
        append(log)
    for path in Path(log.directory).glob("*index"):
        path.write_bytes(path.read_bytes() + bytes(10 * 2**20 // 24 * 24 - path.stat().st_size))
    log = reopened(log, clean=False)
    check_files(log)
    assert log.log_end_offset == 10


def test_an_index_without_a_segment_is_removed(tmp_path):
    log = new_log(tmp_path)
    orphan = Path(log.directory) / f"{77:020d}.timeindex"
    orphan.write_bytes(b"")
    reopened(log, clean=True)
    assert not orphan.exists()


def test_left_overs_of_deletion_and_compaction(tmp_path):
    log = new_log(tmp_path)
    append(log)
    directory = Path(log.directory)
    for name in (
        f"{5:020d}.log.deleted",
        f"{5:020d}.index.deleted",
        f"{6:020d}.log.cleaned",
        f"{0:020d}.timeindex.cleaned",
    ):
        (directory / name).write_bytes(b"x")
    log = reopened(log, clean=True)
    assert not list(directory.glob("*.deleted")) and not list(directory.glob("*.cleaned"))
    assert log.log_end_offset == 1


def test_left_overs_are_removed_in_the_order_of_the_directory(tmp_path, monkeypatch):
    """A set gave the order, so a power loss left other files in each process, and a simulation run did not repeat."""
    log = new_log(tmp_path)
    append(log)
    for number in range(20):
        (Path(log.directory) / f"{number:020d}.log.deleted").write_bytes(b"x")
    listed = [each.name for each in OsDisk().list(log.directory) if each.name.endswith(".deleted")]
    removed, remove = [], OsDisk.remove

    def note_and_remove(disk, path):
        removed.append(os.path.basename(path))
        remove(disk, path)

    monkeypatch.setattr(OsDisk, "remove", note_and_remove)
    reopened(log, clean=True)
    assert removed == listed


def test_a_finished_compaction_is_swapped_in(tmp_path):
    log = new_log(tmp_path, TopicConfig(segment_bytes=200))
    for _ in range(9):
        append(log)
    directory = Path(log.directory)
    bases = [segment.base_offset for segment in log.segments]
    log.close()
    data = Path(log.segments[0].path).read_bytes() + Path(log.segments[1].path).read_bytes()
    kept = b"".join(
        data[each.position : each.end] for each in iter_batches(data) if each.base_offset in (1, bases[2] - 1)
    )
    (directory / f"{0:020d}.log.swap").write_bytes(kept)
    for suffix in ("index", "timeindex"):
        (directory / f"{0:020d}.{suffix}.swap").write_bytes(b"")
    log = reopened(log, clean=True)
    assert [segment.base_offset for segment in log.segments] == [0, *bases[2:]]
    assert [each.base_offset for each in headers_of(log)] == [1, bases[2] - 1, *range(bases[2], 9)]


def test_a_compaction_that_was_not_finished_is_dropped(tmp_path):
    log = new_log(tmp_path)
    append(log)
    directory = Path(log.directory)
    (directory / f"{0:020d}.log.swap").write_bytes(b"")
    (directory / f"{0:020d}.log.cleaned").write_bytes(b"")
    log = reopened(log, clean=True)
    assert log.log_end_offset == 1 and not list(directory.glob("*.swap"))


def test_a_log_that_ends_before_its_start_begins_again(tmp_path):
    log = new_log(tmp_path)
    for _ in range(5):
        append(log)
    log = reopened(log, clean=False, log_start_offset=20)
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (20, 20, 1)
    assert append(log).first_offset == 20


def test_epochs_are_told_by_the_batches_when_their_checkpoint_is_lost(tmp_path):
    log = new_log(tmp_path)
    for epoch in (0, 0, 3, 7):
        append(log, epoch=epoch)
    for damage in (None, b"", b"7\n"):
        checkpoint = Path(log.directory) / "leader-epoch-checkpoint"
        checkpoint.unlink(missing_ok=True) if damage is None else checkpoint.write_bytes(damage)
        log = reopened(log, clean=False)
        assert log.epochs.entries() == [(0, 0), (3, 2), (7, 3)]
        log.flush()
        assert checkpoint.read_text() == "0\n3\n0 0\n3 2\n7 3\n"


def test_producers_survive_every_kind_of_stop(tmp_path):
    log = new_log(tmp_path, TopicConfig(segment_bytes=400))
    for number in range(12):
        append(log, produced(7, 2 * number, 2))
        if number % 4 == 0:
            append(log, produced(8, number // 4))
    known = {pid: (each.last_sequence, each.last_offset) for pid, each in log.producers.producers.items()}
    for clean in (True, False, True):
        log = reopened(log, clean=clean)
        assert {pid: (each.last_sequence, each.last_offset) for pid, each in log.producers.producers.items()} == known
        assert append(log, produced(7, 22, 2)).duplicate
    for path in Path(log.directory).glob("*.snapshot"):
        path.write_bytes(b"garbage")
    log = reopened(log, clean=False)
    assert {pid: (each.last_sequence, each.last_offset) for pid, each in log.producers.producers.items()} == known


def test_transactions_survive_every_kind_of_stop(tmp_path):
    log = new_log(tmp_path, TopicConfig(segment_bytes=400))
    for number in range(8):
        append(log, produced(7, number, attributes=TRANSACTIONAL))
        if number % 3 == 2:
            marker = build_marker(
                commit=number == 2, producer_id=7, producer_epoch=0, coordinator_epoch=1, timestamp=NOW_MS
            )
            append(log, marker, origin=AppendOrigin.COORDINATOR)
    log.set_high_watermark(log.log_end_offset)
    stable, aborted = log.last_stable_offset, log.aborted_transactions(0, log.log_end_offset)
    assert stable == 8 and [(each.first_offset, each.last_offset) for each in aborted] == [(4, 7)]
    for clean in (True, False, False):
        log = reopened(log, clean=clean, recovery_point=0)
        assert log.last_stable_offset == stable
        assert log.aborted_transactions(0, log.log_end_offset) == aborted


def test_a_clean_log_without_any_snapshot_gets_empty_ones(tmp_path):
    log = new_log(tmp_path)
    append(log, produced(7, 0))
    log.close()
    for path in Path(log.directory).glob("*.snapshot"):
        path.unlink()
    log = reopened(log, clean=True)
    assert not log.producers.producers
    assert sorted(path.name for path in Path(log.directory).glob("*.snapshot")) == [
        f"{n:020d}.snapshot" for n in (0, 1)
    ]


def test_silent_producers_are_forgotten_at_the_start(tmp_path):
    log = new_log(tmp_path)
    append(log, produced(7, 0, timestamp=NOW_MS))
    assert reopened(log, clean=True, now_ms=NOW_MS + 2 * 86_400_000).producers.producers == {}


def test_a_directory_that_says_clean_and_is_not_is_checked(tmp_path):
    log = new_log(tmp_path)
    append(log, batch(5))
    append(log, batch(5))
    log.close()
    with open(log.segments.active.path, "r+b") as file:
        file.truncate(last_segment(log).stat().st_size - 3)
    log = reopened(log, clean=False, recovery_point=10)
    assert log.log_end_offset == 5


@pytest.mark.parametrize(
    "base_offset", [0, 4, 1 << 40], ids=["from the start", "inside the batch before", "out of reach"]
)
def test_a_clean_directory_whose_last_batch_has_an_offset_that_cannot_follow_loses_that_batch_only(
    tmp_path, base_offset
):
    log = new_log(tmp_path)
    append(log, batch(5))
    append(log, batch(5))
    last = headers_of(log)[-1]
    log.close()
    with open(log.segments.active.path, "r+b") as file:
        file.seek(last.position)
        file.write(base_offset.to_bytes(8, "big"))
    log = reopened(log, clean=True)
    assert log.log_end_offset == 5
    append(log, batch(5))
    assert [header.base_offset for header in headers_of(log)] == [0, 5]
    check_files(log)


def test_the_same_bytes_whether_opened_clean_or_not(tmp_path):
    log = new_log(tmp_path / "a", TopicConfig(segment_bytes=500, index_interval_bytes=100))
    for number in range(20):
        append(log, batch(2, codec=number % 5))
    log.close()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    before = {path.name: path.read_bytes() for path in Path(log.directory).iterdir()}
    reopened(log, clean=False, recovery_point=0).close()
    assert {path.name: path.read_bytes() for path in Path(log.directory).iterdir()} == before
    assert BatchHeader.read(all_bytes(log)).base_offset == 0
