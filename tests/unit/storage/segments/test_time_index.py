"""The time index against a plain list: entries come, are cut off and are looked up in any order."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalite.protocol.record_batches.records import NO_TIMESTAMP
from kafkalite.storage.disk import OsDisk
from kafkalite.storage.open_files import OpenFiles
from kafkalite.storage.segments.time_index import TimeEntry, TimeIndex

BASE = 1000
INT64_MAX = 2**63 - 1

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(-3, 40) | st.just(INT64_MAX)),
        st.tuples(st.just("truncate"), st.integers(-5, 120)),
        st.tuples(st.just("reopen"), st.just(0)),
    ),
    max_size=60,
)


def expected(entries: list[TimeEntry], timestamp: int) -> TimeEntry:
    return next((each for each in reversed(entries) if each.timestamp < timestamp), TimeEntry(NO_TIMESTAMP, BASE))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_any_sequence_of_changes_agrees_with_a_list(tmp_path: Path, todo: list[tuple[str, int]]) -> None:
    files = OpenFiles(OsDisk(), 8)
    path = str(tmp_path / "index")
    files.create(path)
    index, entries = TimeIndex(files, path, BASE, 0), list[TimeEntry]()
    for kind, number in todo:
        last = entries[-1] if entries else TimeEntry(NO_TIMESTAMP, BASE)
        if kind == "append":
            entry = TimeEntry(number, last.offset + 2)
            index.append_if_later(*entry)
            entries += [entry] if number > last.timestamp else []
        elif kind == "truncate":
            index.truncate_to(BASE + number)
            entries = [each for each in entries if each.offset < BASE + number]
        else:
            index = TimeIndex(files, path, BASE, os.path.getsize(path))
        assert index.entries() == entries
        assert index.last == (entries[-1] if entries else TimeEntry(NO_TIMESTAMP, BASE))
    for timestamp in (*range(-2, 42), INT64_MAX):
        assert index.lookup(timestamp) == expected(entries, timestamp)
    files.close()
