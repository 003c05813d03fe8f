"""The offset index against a plain list: entries come, are cut off and are looked up in any order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalite.storage.disk import OsDisk
from kafkalite.storage.open_files import OpenFiles
from kafkalite.storage.segments import offset_index
from kafkalite.storage.segments.offset_index import OffsetEntry, OffsetIndex

BASE = 1000

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 30)),
        st.tuples(st.just("lookup"), st.integers(-5, 400)),
        st.tuples(st.just("truncate"), st.integers(-5, 400)),
        st.tuples(st.just("reopen"), st.just(0)),
    ),
    max_size=120,
)


def expected(entries: list[OffsetEntry], offset: int) -> OffsetEntry:
    return next((each for each in reversed(entries) if each.offset <= offset), OffsetEntry(BASE, 0))


@pytest.mark.parametrize("block_entries", [1, 2, 7])
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_any_sequence_of_changes_and_lookups_agrees_with_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_entries: int, todo: list[tuple[str, int]]
) -> None:
    monkeypatch.setattr(offset_index, "_BLOCK_ENTRIES", block_entries)
    files = OpenFiles(OsDisk(), 8)
    path = str(tmp_path / "index")
    files.create(path)
    index = OffsetIndex(files, path, BASE, 0)
    entries: list[OffsetEntry] = []
    for kind, number in todo:
        if kind == "append":
            last = entries[-1] if entries else OffsetEntry(BASE - 1, -1)
            entries.append(OffsetEntry(last.offset + number, last.position + 2 * number))
            index.append(*entries[-1])
        elif kind == "truncate":
            entries = [each for each in entries if each.offset < BASE + number]
            index.truncate_to(BASE + number)
        elif kind == "reopen":
            index = OffsetIndex(files, path, BASE, os.path.getsize(path))
        else:
            assert index.lookup(BASE + number) == expected(entries, BASE + number)
        assert index.entries() == entries
    for offset in range(BASE - 5, BASE + 405, 3):
        assert index.lookup(offset) == expected(entries, offset)
    files.close()


def test_most_lookups_read_the_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = OpenFiles(OsDisk(), 8)
    path = str(tmp_path / "index")
    files.create(path)
    index = OffsetIndex(files, path, 0, 0)
    for number in range(20_000):
        index.append(number, number * 10)
    for number in range(0, 20_000, 100):  # learns where blocks begin
        index.lookup(number)
    reads: list[int] = []
    read = files.read

    def counted(path: str, position: int, size: int) -> bytes | bytearray:
        reads.append(size)
        return read(path, position, size)

    monkeypatch.setattr(files, "read", counted)
    assert index.lookup(12_345) == OffsetEntry(12_345, 123_450)
    assert len(reads) == 1
    assert reads[0] <= 4096
    files.close()
