"""The auditor of a migration's evidence finds and names what went wrong, and refuses evidence that is not whole."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkalite.cli.doctor.findings import Status
from kafkalite.cli.main import main
from kafkalite.cli.migrate.audit import ForeignEvidenceError, audit
from kafkalite.cli.migrate.digests import digest_record, split_range
from kafkalite.cli.migrate.evidence import (
    AFTER_FILE,
    BEFORE_FILE,
    LEDGER_FILE,
    Moment,
    ProbeRecord,
    SealedFile,
    ledger_header,
    write_moment,
)
from kafkalite.cli.migrate.journal import Journal
from kafkalite.cli.migrate.witness import judge_policy, number_of, probe_key
from kafkalite.types import TopicPartition
from tests.unit.cli.migrate.moments import (
    BEFORE,
    LEDGER,
    PROBED,
    T0,
    VALUES,
    WHOLE,
    before_of,
    digests,
    moment,
    problems_of,
    with_stable,
)

Change = Callable[[list[bytes]], None]


def test_what_is_as_it_was_has_no_problem() -> None:
    findings = audit(BEFORE, moment(), LEDGER)
    assert [each.found for each in findings] == [
        "2 partitions reach as far as before",
        "25 records in 3 ranges as before",
        "1 committed offset where they were, or further",
        "6 records there once, in order; none without an answer",
    ]
    assert problems_of(replace(moment([*VALUES, b"new"]), ranges=BEFORE.ranges, groups={("g", T0): 26})) == []


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([*VALUES[:12], None, *VALUES[13:]], "t-0, offsets 10 to 20: 1 of 10 records left out"),
        (
            [*VALUES[:12], VALUES[13], VALUES[12], *VALUES[14:]],
            "t-0, offsets 10 to 20: records are changed, or at other offsets",
        ),
        ([*VALUES[:12], b"other", *VALUES[13:]], "t-0, offsets 10 to 20: records are changed, or at other offsets"),
        ([*VALUES[:24], None], "t-0, offsets 20 to 25: 1 of 5 records left out"),
    ],
)
def test_records_that_differ_are_found_by_their_range(values: list[bytes | None], problem: str) -> None:
    assert problems_of(moment(values)) == [problem]


def test_a_record_where_none_was() -> None:
    with_gap = before_of([*VALUES[:12], None, *VALUES[13:]])
    assert problems_of(moment(), before=with_gap) == ["t-0, offsets 10 to 20: 1 record more than the 9 before"]


def test_a_record_that_is_doubled_moves_those_behind_it() -> None:
    doubled = [*VALUES[:23], VALUES[22], *VALUES[23:]]
    assert problems_of(replace(moment(doubled), ranges=digests(doubled))) == [
        "t-0, offsets 20 to 25: records are changed, or at other offsets"
    ]


def test_a_log_that_ends_before_its_end() -> None:
    short = replace(moment(VALUES[:20]), ranges={key: each for key, each in BEFORE.ranges.items() if key[1] < 20})
    assert problems_of(replace(short, groups={("g", T0): 20})) == [
        "t-0 ended at offset 25 and ends at 20",
        "t-0, offsets 20 to 25: they were not read after",
    ]


def test_a_partition_that_was_forgotten() -> None:
    after = moment()
    assert problems_of(replace(after, partitions={T0: after.partitions[T0]})) == ["t-1 is not there after"]


def test_retention_and_compaction_are_told_apart_from_losses() -> None:
    deleted = moment(VALUES, log_start=10)
    findings = audit(
        BEFORE, replace(deleted, ranges={key: each for key, each in BEFORE.ranges.items() if key[1]}), LEDGER
    )
    assert not [each for each in findings if each.remedy]
    assert "1 range deleted by retention meanwhile, and not compared" in [each.found for each in findings]
    compacted = audit(BEFORE, moment([*VALUES[:12], None, *VALUES[13:]], is_compacted=True), LEDGER)
    assert not [each for each in compacted if each.remedy]
    assert any("1 range of compacted topics have fewer records" in each.found for each in compacted)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([*VALUES[:12], b"other", *VALUES[13:]], "t-0, offsets 10 to 20: records are changed, or at other offsets"),
        (
            [*VALUES[:12], VALUES[13], VALUES[12], *VALUES[14:]],
            "t-0, offsets 10 to 20: records are changed, or at other offsets",
        ),
    ],
)
def test_compaction_takes_records_out_and_changes_none(values: list[bytes], problem: str) -> None:
    assert problems_of(moment(values, is_compacted=True)) == [problem]
    unread = moment(is_compacted=True)
    ranges = {key: each for key, each in unread.ranges.items() if key[1] != 10}
    assert problems_of(replace(unread, ranges=ranges)) == ["t-0, offsets 10 to 20: they were not read after"]


def test_what_is_gone_from_a_topic_without_retention_is_a_warning() -> None:
    """Somebody may have deleted records; nothing tells of it."""

    def endless(of: Moment) -> Moment:
        return replace(of, partitions={**of.partitions, T0: replace(of.partitions[T0], may_expire=False)})

    after = moment(VALUES, log_start=10)
    after = replace(after, ranges={key: each for key, each in BEFORE.ranges.items() if key[1]})
    (told,) = [each for each in audit(endless(BEFORE), endless(after), LEDGER) if each.remedy]
    assert told.status is Status.WARNING and told.found == "t-0 begins at offset 10: 1 range gone without retention"
    assert problems_of(after, before=endless(BEFORE)) == [], "it may expire since"


def test_settings_by_which_records_may_go() -> None:
    assert judge_policy({}) == (False, True)
    assert judge_policy({"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "9"}) == (False, True)
    assert judge_policy({"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}) == (False, False)
    assert judge_policy({"cleanup.policy": "compact", "retention.ms": "9"}) == (True, False)
    assert judge_policy({"cleanup.policy": "compact,delete"}) == (True, True)


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        ({("g", T0): 19}, "group g had committed 20 for t-0, and is back at 19"),
        ({}, "group g had committed 20 for t-0, and has nothing now"),
        ({("g", T0): 26}, "group g has committed 26 for t-0, which ends at 25"),
    ],
)
def test_a_group_that_is_behind_or_beyond(groups: dict[tuple[str, TopicPartition], int], problem: str) -> None:
    assert problems_of(replace(moment(), groups=groups)) == [problem]


def probed(*changes: tuple[int, ProbeRecord | None], more: Sequence[ProbeRecord] = ()) -> Moment:
    """With these records of the probe instead of those with their numbers."""
    records = dict(enumerate(PROBED)) | dict(changes)
    return replace(moment(), probed=(*(each for each in records.values() if each is not None), *more))


@pytest.mark.parametrize(
    ("after", "problems"),
    [
        (probed((3, None)), ["record 3, acknowledged at offset 101 of probed-1, is left out"]),
        (
            probed(more=[ProbeRecord(4, 0, 103, PROBED[4].digest)]),
            ["record 4 is there 2 times: offset 102 of probed-0, offset 103 of probed-0"],
        ),
        (probed((2, replace(PROBED[2], digest="0" * 32))), ["record 2 at offset 101 of probed-0 is changed"]),
        (
            probed((2, replace(PROBED[2], offset=102)), (4, replace(PROBED[4], offset=101))),
            [
                "record 2 was acknowledged at offset 101 of probed-0, and is at offset 102 of probed-0",
                "record 4 was acknowledged at offset 102 of probed-0, and is at offset 101 of probed-0",
                "record 2 stands behind record 4 in probed-0, at offset 102",
            ],
        ),
        (probed(more=[ProbeRecord(9, 0, 103, "0" * 32)]), ["record 9 is there, and was never sent"]),
    ],
    ids=["left out", "doubled", "changed", "reordered", "made up"],
)
def test_acknowledged_records_that_are_not_as_they_were(after: Moment, problems: list[str]) -> None:
    assert problems_of(after) == problems


def test_records_without_an_answer_may_be_there_once_or_not() -> None:
    ledger = replace(LEDGER, sent=7, unresolved=frozenset({6}))
    there = ProbeRecord(6, 0, 103, "0" * 32)
    assert problems_of(moment(), ledger=ledger) == []
    assert problems_of(probed(more=[there]), ledger=ledger) == []
    assert problems_of(probed(more=[there, replace(there, offset=104)]), ledger=ledger) == [
        "record 6 is there 2 times: offset 103 of probed-0, offset 104 of probed-0"
    ]


def test_evidence_that_does_not_belong_together_is_refused() -> None:
    with pytest.raises(ForeignEvidenceError, match="not younger"):
        audit(BEFORE, BEFORE, LEDGER)
    with pytest.raises(ForeignEvidenceError, match="before is of cluster id, after of other"):
        audit(BEFORE, replace(moment(), cluster_id="other"), LEDGER)
    with pytest.raises(ForeignEvidenceError, match="of the same cluster, id: that is no copy"):
        audit(BEFORE, moment(), LEDGER, is_copy=True)
    assert all(
        each.remedy is None for each in audit(BEFORE, replace(moment(), cluster_id="other"), LEDGER, is_copy=True)
    )
    with pytest.raises(ForeignEvidenceError, match="the ledger is of probe probe-1, and after looked for none"):
        audit(BEFORE, replace(moment(), probe=None), LEDGER)


def test_a_log_that_begins_where_it_ended_is_a_warning() -> None:
    (found,) = (each for each in audit(BEFORE, replace(moment(log_start=25), ranges={}), LEDGER) if each.remedy)
    assert (found.status, found.found) == (Status.WARNING, "nothing that was there before is left in t-0")


# -- files


def write_ledger(path: Path, rows: Sequence[object]) -> None:
    with SealedFile(path, ledger_header("probe-1", "probed")) as file:
        for row in rows:
            file.write(asdict(row) if isinstance(row, ProbeRecord) else row)  # type: ignore[arg-type]
        file.seal()


def verify(directory: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["migrate", "verify", str(directory), "-o", "jsonl", *options])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Whole evidence of a migration that went well."""
    write_moment(tmp_path / BEFORE_FILE, replace(with_stable(BEFORE, 25), probe=None, probed=(), copies=(WHOLE,)))
    write_moment(tmp_path / AFTER_FILE, replace(with_stable(moment(), 25), copies=(WHOLE,)))
    write_ledger(tmp_path / LEDGER_FILE, PROBED)
    return tmp_path


def test_files_are_read_as_they_were_written(directory: Path) -> None:
    result = verify(directory)
    assert result.exit_code == 0, result.output
    assert {json.loads(line)["status"] for line in result.stdout.splitlines()} == {"ok"}
    assert verify(directory, "--problems").stdout == ""


def test_a_difference_is_exit_code_7(directory: Path) -> None:
    (directory / AFTER_FILE).unlink()
    write_moment(directory / AFTER_FILE, probed((3, None)))
    result = verify(directory, "--problems")
    assert result.exit_code == 7 and "is left out" in result.stdout and "keep all log directories" in result.stdout


def test_what_is_missing_is_named(directory: Path) -> None:
    for name in (AFTER_FILE, LEDGER_FILE, BEFORE_FILE):
        (directory / name).unlink()
        result = verify(directory)
        assert result.exit_code == 3 and f"{name} is missing" in result.stderr
    write_moment(directory / BEFORE_FILE, BEFORE)
    write_moment(directory / AFTER_FILE, replace(moment(), probe=None, probed=()))
    assert verify(directory, "--without-probe").exit_code == 0


def test_nothing_is_written_over(directory: Path) -> None:
    with pytest.raises(FileExistsError):
        write_moment(directory / AFTER_FILE, moment())


@pytest.mark.parametrize("name", [LEDGER_FILE, BEFORE_FILE, AFTER_FILE])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda lines: lines.pop(),
        lambda lines: lines.pop(2),
        lambda lines: lines.insert(2, lines[2]),
        lambda lines: lines.insert(2, lines.pop(3)),
        lambda lines: lines.__setitem__(2, lines[2].replace(b"1", b"2").replace(b"0", b"1")),
        lambda lines: lines.__setitem__(-1, lines[-1][:9]),
        lambda lines: lines.__setitem__(slice(1, None), []),
        lambda lines: lines.clear(),
    ],
    ids=["unsealed", "left out", "doubled", "reordered", "changed", "torn", "begun", "empty"],
)
def test_incomplete_evidence_is_refused(directory: Path, name: str, spoil: Change) -> None:
    path = directory / name
    lines = path.read_bytes().splitlines(keepends=True)
    spoil(lines)
    path.write_bytes(b"".join(lines))
    result = verify(directory)
    assert result.exit_code == 1 and f"{name} is no complete evidence: " in result.stderr and result.stdout == ""


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ((*PROBED[:3], *PROBED[4:]), "it does not tell of record 3, though of later ones"),
        ((*PROBED, PROBED[0]), "it tells of a record twice"),
        (({"unresolved": 0},), "nothing was acknowledged"),
        ((), "nothing was acknowledged"),
        (({"number": 1},), "it is no ledger"),
    ],
)
def test_a_ledger_that_does_not_account_for_all_that_was_sent_is_refused(
    directory: Path, rows: Sequence[object], why: str
) -> None:
    (directory / LEDGER_FILE).unlink()
    write_ledger(directory / LEDGER_FILE, rows)
    result = verify(directory)
    assert result.exit_code == 1 and why in result.stderr


@pytest.mark.parametrize(
    ("left_out", "gap"),
    [
        ([0], "from offset 0 to 10"),
        ([10], "from offset 10 to 20"),
        ([20], "from offset 20 to 25"),
        ([0, 10, 20], "from offset 0 to 25"),
    ],
)
def test_ranges_that_do_not_cover_a_partition_are_refused(directory: Path, left_out: list[int], gap: str) -> None:
    (directory / BEFORE_FILE).unlink()
    ranges = {key: each for key, each in BEFORE.ranges.items() if key[1] not in left_out}
    write_moment(directory / BEFORE_FILE, replace(BEFORE, ranges=ranges))
    result = verify(directory)
    assert result.exit_code == 1 and f"t-0 is not covered {gap}" in result.stderr


def test_records_of_an_open_transaction_need_no_range(directory: Path) -> None:
    """They are compared as bytes: what is not committed has no digest."""
    (directory / BEFORE_FILE).unlink()
    ranges = {key: each for key, each in BEFORE.ranges.items() if key[1] < 20}
    partitions = {**BEFORE.partitions, T0: replace(BEFORE.partitions[T0], stable=20)}
    write_moment(directory / BEFORE_FILE, replace(BEFORE, ranges=ranges, partitions=partitions))
    assert "is not covered" not in verify(directory).stderr


def test_evidence_of_an_earlier_format_is_refused_with_a_remedy(directory: Path) -> None:
    (directory / BEFORE_FILE).unlink()
    with SealedFile(directory / BEFORE_FILE, {"evidence": "moment", "format": 1}) as file:
        file.seal()
    result = verify(directory)
    assert result.exit_code == 1
    assert "its format is 1, not 2: take it again with this release, into another directory" in result.stderr


def test_only_ranges_of_the_last_offsets_are_needed(directory: Path) -> None:
    (directory / BEFORE_FILE).unlink()
    ranges = {key: each for key, each in BEFORE.ranges.items() if key[1] == 20}
    write_moment(directory / BEFORE_FILE, replace(BEFORE, ranges=ranges, last=5))
    assert verify(directory).exit_code == 0


def test_a_ledger_that_is_not_whole_does_not_spoil_what_needs_no_probe(directory: Path) -> None:
    """As of a probe that was killed."""
    path = directory / LEDGER_FILE
    path.write_bytes(path.read_bytes().rpartition(b"{")[0])
    assert verify(directory).exit_code == 1
    result = verify(directory, "--without-probe")
    assert result.exit_code == 0 and "acknowledged" not in result.stdout


def test_evidence_and_its_name_are_on_disk_before_anything_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[int, int]] = []

    def note_file(descriptor: int) -> None:
        found = os.fstat(descriptor)
        synced.append((found.st_ino, found.st_size if stat.S_ISREG(found.st_mode) else 0))

    monkeypatch.setattr(os, "fsync", note_file)
    path = tmp_path / BEFORE_FILE
    write_moment(path, BEFORE)
    assert synced == [(path.stat().st_ino, path.stat().st_size), (tmp_path.stat().st_ino, 0)]
    synced.clear()
    with Journal(tmp_path / "journal"):
        assert synced == [(tmp_path.stat().st_ino, 0)]


# -- digests


def test_digests_depend_on_key_and_value() -> None:
    records = [(None, None), (b"", None), (None, b""), (b"ab", b"c"), (b"a", b"bc")]
    assert len({digest_record(*each) for each in records}) == len(records)


def test_ranges_end_at_the_same_offsets_wherever_they_begin() -> None:
    assert list(split_range(5, 25, 10)) == [(5, 10), (10, 20), (20, 25)]
    assert list(split_range(20, 30, 10)) == [(20, 30)]
    assert list(split_range(7, 7, 10)) == []


def test_a_probe_knows_its_own_records() -> None:
    assert number_of("probe-1", probe_key("probe-1", 12)) == 12
    assert number_of("probe-2", probe_key("probe-1", 12)) is None
    assert [number_of("p", key) for key in (None, b"", b"p:", b"p:x", b"p:-1", b"\xff", b"12")] == [None] * 7
