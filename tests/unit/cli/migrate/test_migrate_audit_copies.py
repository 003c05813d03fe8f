"""The auditor compares every replica's copy with the others and with that of before, and last stable offsets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkalite.cli.doctor.findings import Status
from kafkalite.cli.migrate.audit import audit
from kafkalite.cli.migrate.evidence import (
    CopyDigest,
    Moment,
    UnreadCopy,
)
from tests.unit.cli.migrate.moments import BEFORE, LEDGER, WHOLE, copy, log_of, moment, problems_of, with_stable


def test_copies_with_the_same_batches_are_equal() -> None:
    assert (WHOLE.batches, WHOLE.markers, WHOLE.aborted) == (4, 2, 1)
    assert copy(1, log_of(), [(1, 4), (5, 8)]) == WHOLE, "what begins behind the last stable offset is left out"
    before, after = replace(BEFORE, copies=(WHOLE, copy(2, log_of()))), replace(moment(), copies=(copy(2, log_of()),))
    (found,) = (each for each in audit(before, after, LEDGER) if each.check == "copies")
    assert (found.status, found.found) == (
        Status.OK,
        "1 replica with the same batches, markers and aborted transactions as before",
    )


@pytest.mark.parametrize(
    "other", [copy(2, log_of(markers="cc")), copy(2, log_of(value=b"other")), copy(2, log_of(), [])]
)
def test_a_copy_that_differs_is_named(other: CopyDigest) -> None:
    """Another marker, another record, an aborted transaction that a broker does not tell of."""
    before = replace(BEFORE, copies=(WHOLE, copy(2, log_of())))
    (problem,) = problems_of(replace(moment(), copies=(WHOLE, other)), before)
    assert problem.startswith("t-0 differs: offsets 0 to 8: 4 batches, 2 markers, 1 aborted transactions on broker 1; ")
    (problem,) = problems_of(replace(moment(), copies=(other, replace(other, broker=3))), before)
    assert problem.startswith("t-0 is not as before: offsets 0 to 8: ")


def test_copies_that_differed_before_are_each_compared_with_their_own() -> None:
    """Logs that an unclean election of long ago has left apart stop no migration; what changes meanwhile does."""
    other = copy(2, log_of(value=b"other"))
    before = replace(BEFORE, copies=(WHOLE, other))
    findings = [each for each in audit(before, replace(moment(), copies=(WHOLE, other)), LEDGER) if each.remedy]
    assert [each.status for each in findings] == [Status.WARNING]
    assert findings[0].found.startswith("t-0 differed before already: offsets 0 to 8: ")
    _, problem = problems_of(replace(moment(), copies=(WHOLE, copy(2, log_of(value=b"again")))), before)
    assert problem.startswith("t-0 is not as before: offsets 0 to 8: ")


def told_of_copies(before: Moment, after: Moment) -> list[tuple[Status, str]]:
    return [(each.status, each.found) for each in audit(before, after, LEDGER) if each.check == "copies"]


def test_copies_that_were_not_read_are_told_of() -> None:
    unread = UnreadCopy("t", 0, 3, "it is not in sync")
    before = replace(BEFORE, copies=(WHOLE,))
    skipped = (Status.SKIPPED, "broker 3's copy of t-0 was not read after: it is not in sync")
    assert told_of_copies(before, replace(moment(), copies=(WHOLE,), unread=(unread,)))[1:] == [skipped]
    assert told_of_copies(before, replace(moment(), unread=(unread,))) == [
        (Status.PROBLEM, "no copy of t-0 was read after"),
        skipped,
    ]
    assert told_of_copies(before, replace(moment(log_start=5), unread=(unread,))) == [
        (Status.SKIPPED, "1 partition that lost batches meanwhile by retention or compaction not compared"),
        skipped,
    ]


@pytest.mark.parametrize("why", ["OFFSET_OUT_OF_RANGE", "nothing from offset 5 on"])
def test_a_replica_in_sync_that_lacks_what_was_there_is_named(why: str) -> None:
    before = replace(BEFORE, copies=(WHOLE, copy(2, log_of())))
    after = replace(moment(), copies=(WHOLE,), unread=(UnreadCopy("t", 0, 2, why, is_lacking=True),))
    assert problems_of(after, before) == [f"broker 2's copy of t-0 has not all that was there before: {why}"]


def test_last_stable_offsets_do_not_go_back_and_open_transactions_are_told() -> None:
    found = problems_of(with_stable(moment(), 19), with_stable(BEFORE, 20))
    assert found == ["t-0 was stable up to offset 20, and is up to 19"]
    assert problems_of(with_stable(moment(), 20), with_stable(BEFORE, 20)) == [
        "the transaction at offset 20 of t-0 was open before, and is still"
    ]
    findings = audit(with_stable(BEFORE, 20), with_stable(moment(), 21), LEDGER)
    (told,) = (each.found for each in findings if each.check == "transactions")
    assert told == "1 last stable offset where they were, or further; open ones in t-0"
    assert problems_of(with_stable(moment(), 20), BEFORE) == [], "a file of an earlier version"
