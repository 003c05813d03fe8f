"""Records that are changed, left out and added in one of two logs: found by digests of ranges, in as few as the bound allows."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.cli.mirror.comparison import differences
from kafkalite.cli.mirror.comparison.differences import Difference, Digest, Pair, search_differences

Log = Mapping[int, bytes]
"""Values by offset."""


def digest(log: Log, start: int, end: int) -> Digest:
    some = {offset: value for offset, value in log.items() if start <= offset < end}
    fingerprint = sum(hash((offset, value)) for offset, value in some.items()) % (1 << 128)
    return Digest(
        len(some), sum(map(len, some.values())), fingerprint, min(some, default=None), max(some, default=None)
    )


class Compared:
    """The search of two logs; `asked` are the ranges that were digested."""

    def __init__(self, source: Log, target: Log, end: int, most: int = differences.COMPARISONS_MAX) -> None:
        self.asked: list[tuple[int, int]] = []
        search = search_differences(0, end, most)
        try:
            span = next(search)
            while True:
                self.asked.append(span)
                span = search.send(Pair(digest(source, *span), digest(target, *span)))
        except StopIteration as finished:
            self.found: list[Difference] = finished.value

    @property
    def problems(self) -> list[tuple[int, int, str]]:
        return [(each.start, each.end, each.problem) for each in self.found]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "CHUNK_OFFSETS", 64)


LOG = {offset: b"value %d" % offset for offset in range(200) if offset % 7}
"""With gaps, as markers of transactions and compaction leave them."""


def test_equal_logs_are_read_once() -> None:
    found = Compared(LOG, dict(LOG), 200)
    assert (found.found, found.asked) == ([], [(0, 64), (64, 128), (128, 192), (192, 200)])
    assert Compared({}, {}, 0).asked == []


def test_a_changed_record_is_found_by_halves() -> None:
    found = Compared(LOG, LOG | {100: b"other"}, 200)
    assert found.problems == [(100, 101, "1 record with other contents")]
    assert found.found[0].is_change
    assert len(found.asked) == 4 + 6, "a chunk of 64 offsets has six halvings"
    assert sum(end - start for start, end in found.asked[2:-2]) < 64, "of which only the lower halves are read"


@pytest.mark.parametrize("is_in_source", [True, False])
def test_records_of_one_side_only_are_named_by_the_first_and_last_of_them(is_in_source: bool) -> None:
    part = {offset: value for offset, value in LOG.items() if not 90 <= offset < 110}
    found = Compared(LOG, part, 200) if is_in_source else Compared(part, LOG, 200)
    (each,) = found.found
    assert (each.start, each.end) == (90, 110)
    assert each.problem == ("17 records missing in the target" if is_in_source else "17 records in the target only")


def test_all_of_a_chunk_is_missing() -> None:
    part = {offset: value for offset, value in LOG.items() if offset < 64 or offset >= 192}
    found = Compared(LOG, part, 200)
    assert found.problems == [(64, 192, "110 records missing in the target")]
    assert len(found.asked) == 4, "no halving says more"


def test_the_number_of_comparisons_is_bounded() -> None:
    found = Compared(LOG, dict.fromkeys(LOG, b"other"), 200, most=10)
    assert len(found.asked) == 4 + 10
    assert sum(each.source for each in found.found) == len(LOG)
    assert [each.is_change for each in found.found] == [True, False], (
        "some are known to the offset, of the rest only that"
    )


def test_records_in_other_places_show_on_both_sides() -> None:
    moved = {offset + 1 if offset == 111 else offset: value for offset, value in LOG.items() if offset != 110}
    moved[111] = LOG[110]
    assert {each.start for each in Compared(LOG, moved, 200).found} <= {110, 111, 112}
    assert sum(each.source for each in Compared(LOG, moved, 200).found) >= 2


def test_a_log_that_changes_meanwhile_is_asked_again() -> None:
    """Compaction has taken most of what the first digest was made of."""
    search = search_differences(0, 64)
    assert next(search) == (0, 64)
    assert search.send(Pair(Digest(30, 30, 1, 0, 60), Digest(9, 9, 2, 0, 60))) == (0, 32)
    same = Digest(20, 20, 3, 0, 31)
    assert search.send(Pair(same, same)) == (32, 64), "of nine records twenty cannot be in the lower half"
    with pytest.raises(StopIteration) as finished:
        search.send(Pair(Digest(10, 10, 4, 40, 60), Digest(0, 0, 0)))
    assert finished.value.value == [Difference(40, 61, 10, 0)]


@given(
    st.dictionaries(st.integers(0, 255), st.binary(max_size=2), max_size=40),
    st.dictionaries(st.integers(0, 255), st.sampled_from([b"x", None]), max_size=6),
)
def test_what_differs_is_in_what_is_found_and_nothing_else(
    log: dict[int, bytes], changes: dict[int, bytes | None]
) -> None:
    other = {offset: value for offset, value in (log | changes).items() if value is not None}
    wanted = {offset for offset in log.keys() | other.keys() if log.get(offset) != other.get(offset)}
    found = Compared(log, other, 256).found
    covered = {offset for each in found for offset in range(each.start, each.end)}
    assert wanted <= covered
    assert not {offset for offset in covered - wanted if offset in log}
    assert bool(found) == bool(wanted)
