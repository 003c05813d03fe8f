"""Faults put into an archive, its ledger and the log on purpose: all are found, and named with their offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from pyarrow import parquet

from kafkalite.client import DigestedRange, hash_record
from spark_jobs.batch import proof
from spark_jobs.batch.cluster_log import ClusterLog
from spark_jobs.batch.failures import BadRequestError, DifferencesError
from spark_jobs.batch.ledger import Entry, Ledger, PartFile, Unit
from spark_jobs.batch.night import note_digests
from spark_jobs.batch.plan import LateDates, LogBounds, RunPlan
from spark_jobs.batch.proof import BUCKET_OFFSETS, Span, Sum, clip_spans, make_buckets, spans_of
from spark_jobs.batch.signatures import load_checker, load_signer
from spark_jobs.batch.storage import LocalStorage
from spark_jobs.batch.window import time_zone
from spark_jobs.commands import main
from spark_jobs.jobs import verify

DAY = date(2013, 6, 15)
NOON = 1_371_297_600_000
DAY_MS = 86_400_000
TOO_LATE = 1_371_297_600_000_000_000
"""A time in nanoseconds, which is no date."""
PLAN = RunPlan(
    "flights",
    "id",
    DAY,
    {0: (2, 40), 1: (0, 0)},
    {0: 40, 1: 6},
    (LateDates(date(2013, 6, 1), date(2013, 6, 2), {0: 30, 1: 0}),),
    undated={0: ((0, 40),)},
)


class Row(NamedTuple):
    partition: int
    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def hashed(self) -> int:
        return hash_record(self.offset, self.time_ms, self.key, self.value, self.headers)


def records() -> list[Row]:
    """A log of two partitions, with records of the day, of others, late and undated ones."""
    found = [
        Row(0, offset, NOON + offset, b"k%d" % offset, b"v" * offset, (("h", None),) if offset % 3 else ())
        for offset in range(40)
    ]
    found[7] = found[7]._replace(time_ms=NOON + DAY_MS)  # of the next day
    found[12] = found[12]._replace(time_ms=-1)
    found[20] = found[20]._replace(time_ms=TOO_LATE, key=None)
    found[33] = found[33]._replace(time_ms=NOON - 14 * DAY_MS, value=None)  # late
    return found + [Row(1, offset, NOON - 14 * DAY_MS + offset, None, b"late") for offset in range(6)]


class Log:
    """A log that has these records from `begin` on; counts how often it is asked."""

    def __init__(self, rows: Sequence[Row], begin: int = 0) -> None:
        self.rows, self.begin = list(rows), begin
        self.asked, self.topic_id = 0, "id"

    def bounds(self, topic: str) -> LogBounds:
        return LogBounds(topic, self.topic_id, {0: self.begin, 1: self.begin}, {0: 40, 1: 6})

    def digest(self, topic: str, spans: Sequence[Span]) -> Sum:
        self.asked += 1
        total = Sum()
        for partition, start, end, since, until in spans:
            assert start >= self.begin, "retention has taken that"
            for each in self.rows:
                is_in_time = since <= each.time_ms and (until is None or each.time_ms < until)
                if each.partition == partition and start <= each.offset < end and is_in_time:
                    total += Sum(1, each.hashed, each.offset, each.offset)
        return total

    def digest_parts(self, topic: str, spans: Sequence[Span], part_offsets: int) -> list[tuple[int, int, Sum]]:
        """Return what each offset has, which lies in one part."""
        return [
            (each.partition, offset, self.digest(topic, [each._replace(start=offset, end=offset + 1)]))
            for each in spans
            for offset in range(each.start, each.end)
        ]


def taken(rows: Sequence[Row]) -> list[Row]:
    """What the run archives of them."""
    return [each for each in rows if each.partition == 1 or (each.offset >= 2 and each.offset != 7)]


def table_of(rows: Sequence[Row]) -> Any:
    """As Spark writes it: no headers is null, a time that is none of Spark's too, whose number is in the reason."""
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    shown = [None if each.time_ms == TOO_LATE else each.time_ms * 1000 for each in rows]
    columns = {
        "key": pa.array([each.key for each in rows], pa.binary()),
        "value": pa.array([each.value for each in rows], pa.binary()),
        "partition": pa.array([each.partition for each in rows], pa.int32()),
        "offset": pa.array([each.offset for each in rows], pa.int64()),
        "timestamp": pa.array(shown, pa.timestamp("us", tz="UTC")),
        "headers": pa.array([[{"key": k, "value": v} for k, v in each.headers] or None for each in rows], headers),
    }
    reasons = [f"timestamp: {TOO_LATE} ms is beyond the years" if each is None else None for each in shown]
    if any(reasons):
        columns["reason"] = pa.array(reasons, pa.string())
    return pa.table(columns)


class Site:
    """An archive of one run, written and signed."""

    def __init__(self, root: Path, log: Log) -> None:
        self.root, self.log, self.storage = root, log, LocalStorage(root)
        self.rows = taken(log.rows)
        self.ledger = Ledger(self.storage, "archive")
        key = Ed25519PrivateKey.generate()
        self.key = root / "ledger.key"
        self.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        self.public = root / "ledger.pub"
        self.public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        rows = self.rows
        good, dead = (
            [each for each in rows if -1 < each.time_ms < TOO_LATE],
            [each for each in rows if each.time_ms in (-1, TOO_LATE)],
        )
        units = (
            self.unit("archive/date=1", {"a.parquet": good[:9], "b.parquet": good[9:]}),
            self.unit("dead_letters/date=1", {"c.parquet": dead}),
        )
        spans = clip_spans(spans_of(PLAN, time_zone("UTC")), log.bounds("flights").begin)
        buckets = make_buckets(log.digest_parts("flights", spans, BUCKET_OFFSETS))
        assert sum(each.records for each in buckets) == len(rows)
        entry = Entry("archive", PLAN, "planned", "x", units, zone="UTC", digests=tuple(buckets))
        self.entry = self.ledger.finish(entry, 9, load_signer(self.key))

    def unit(self, path: str, files: dict[str, list[Row]]) -> Unit:
        found = []
        for name, rows in files.items():
            self.write(f"{path}/{name}", rows)
            size = (self.root / path / name).stat().st_size
            found.append(PartFile(name, size, len(rows), self.storage.digest(f"{path}/{name}") or ""))
        self.storage.write(f"{path}/_manifest.json", b"{}")
        return Unit(path, "", str(DAY), tuple(found), "identity")

    def write(self, path: str, rows: Sequence[Row]) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table_of(rows), self.root / path)

    def change(self, name: str, change: Callable[[list[Row]], list[Row]]) -> None:
        """Write the file of good rows `name` again, as a broken program might."""
        good = [each for each in self.rows if -1 < each.time_ms < TOO_LATE]
        self.write(f"archive/date=1/{name}", change(good[:9] if name == "a.parquet" else good[9:]))

    def verify(self, *, with_log: bool = True, key: Path | None = None) -> list[tuple[str, str]]:
        check = load_checker(key or self.public)
        (found,) = verify.main(self.storage, self.log if with_log else None, ["flights"], [DAY], check)
        return [(each.place, each.problem) for each in found.findings]


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "BUCKET_OFFSETS", 16)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, Log(records()))


OTHER_BYTES = ("archive/date=1/a.parquet", "the file is not as the run wrote it")


def test_what_is_as_it_was_written_is_found_to_be_so(site: Site) -> None:
    assert site.verify() == site.verify(with_log=False) == site.verify(key=site.key) == []
    (found,) = verify.main(site.storage, site.log, ["flights"], [DAY], None)
    assert (found.records, found.in_log) == (43, 43)
    assert found.rows() == [
        {"topic": "flights", "date": "2013-06-15", "records": 43, "in_log": 43, "place": None, "problem": None}
    ]
    verify.judge([found])


def test_a_night_with_a_key_notes_the_digests_of_what_it_takes(site: Site) -> None:
    planned = replace(site.entry, state="planned", zone="", digests=(), signature="")
    night: Any = SimpleNamespace(sign=None, log=site.log, reading=SimpleNamespace(zone="UTC"))
    assert note_digests(night, planned) is planned
    night.sign = load_signer(site.key)
    noted = note_digests(night, planned)
    assert (noted.zone, noted.digests, noted.signature) == ("UTC", site.entry.digests, "")
    site.log.begin = 20
    assert min(each.first_offset for each in note_digests(night, planned).digests) == 20, (
        "what is gone is not asked for"
    )


class FakeAdmin:
    """Digests rows as brokers do, and notes what it is asked for."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self.asked: list[tuple[dict[int, tuple[int, int]], int, int | None]] = []

    def digest_records(
        self, ranges: Any, *, since_ms: int, until_ms: int | None, part_offsets: int | None
    ) -> list[DigestedRange]:
        self.asked.append(({place.partition: each for place, each in ranges.items()}, since_ms, until_ms))
        found = []
        for place, (start, end) in ranges.items():
            cuts = (
                range(0)
                if part_offsets is None
                else range((start // part_offsets + 1) * part_offsets, end, part_offsets)
            )
            for first, behind in pairwise([start, *cuts, end]):
                some = [
                    each
                    for each in self.rows
                    if each.partition == place.partition and first <= each.offset < behind
                    if since_ms <= each.time_ms and (until_ms is None or each.time_ms < until_ms)
                ]
                offsets, times = [each.offset for each in some], [each.time_ms for each in some]
                shown = (min(offsets), max(offsets), min(times), max(times)) if some else (None,) * 4
                fingerprint = f"{sum(each.hashed for each in some) % (1 << 128):032x}"
                found.append(DigestedRange(place, first, behind, len(some), *shown, 0, fingerprint))
        return found


def log_of(admin: FakeAdmin) -> ClusterLog:
    log = ClusterLog.__new__(ClusterLog)
    log._admin = admin  # type: ignore[assignment]
    return log


def test_the_cluster_is_asked_for_the_records_of_spans() -> None:
    admin = FakeAdmin(records())
    log = log_of(admin)
    spans = [Span(1, 2, 4, 0, NOON), Span(1, 5, 5, 7, None), Span(1, 5, 6, 7, None)]
    assert log.digest("t", spans) == Log(records()).digest("t", spans)
    assert admin.asked == [({1: (2, 4)}, 0, NOON), ({1: (5, 6)}, 7, None)]


def test_the_cluster_is_asked_once_for_the_parts_of_many_partitions() -> None:
    admin = FakeAdmin(records())
    day, later = (NOON, NOON + DAY_MS), (NOON + DAY_MS, None)
    spans = [Span(0, 3, 25, *day), Span(1, 0, 2, *day), Span(1, 2, 3, *day), Span(1, 4, 6, *later)]
    parts = log_of(admin).digest_parts("t", spans, 10)
    assert admin.asked == [({0: (3, 25), 1: (0, 2)}, *day), ({1: (2, 3)}, *day), ({1: (4, 6)}, *later)]
    assert [(p, start, total.records) for p, start, total in parts] == [
        (0, 3, 6), (0, 10, 9), (0, 20, 4), (1, 0, 0), (1, 2, 0), (1, 4, 0)
    ]  # fmt: skip
    assert sum(each.records for each in make_buckets(parts)) == 19
    assert make_buckets([(0, 5, Sum())]) == []


def test_the_same_offsets_are_asked_about_once_for_the_times_of_many_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """A night asked four times about each record: for those of its date and, three times, for undated ones."""
    monkeypatch.setattr(proof, "BUCKET_OFFSETS", 10)
    least = -(1 << 63)
    times = [(NOON, NOON + DAY_MS), (least, NOON - 20 * DAY_MS), (-1, 0), (TOO_LATE, None)]
    spans = [Span(p, 0, 40 if p == 0 else 6, *each) for each in times for p in (0, 1)]
    dated = [each for each in records() if each.partition == 0 and NOON <= each.time_ms < NOON + DAY_MS]
    admin = FakeAdmin(dated)
    parts = log_of(admin).digest_parts("t", spans, 10)
    assert admin.asked == [({0: (0, 40), 1: (0, 6)}, least, None)]
    assert make_buckets(parts) == make_buckets(Log(dated).digest_parts("t", spans, 10))
    admin = FakeAdmin(records())
    parts = log_of(admin).digest_parts("t", spans, 10)
    assert make_buckets(parts) == make_buckets(Log(records()).digest_parts("t", spans, 10))
    assert admin.asked == [
        ({0: (0, 40), 1: (0, 6)}, least, None),
        ({0: (0, 40)}, NOON, NOON + DAY_MS),
        ({0: (10, 20)}, least, NOON - 20 * DAY_MS),
        ({0: (10, 20)}, -1, 0),
        ({0: (20, 30)}, TOO_LATE, None),
    ], "where records lie on both sides of a bound, or between the least and the largest time"


@pytest.mark.parametrize("seed", range(60))
def test_spans_that_overlap_have_the_digests_of_each(seed: int) -> None:
    random = Random(seed)
    rows = [Row(p, offset, random.choice((-1, 5, 10, 15, 20)), None, b"") for p in (0, 1) for offset in range(30)]
    if seed % 2:
        rows.sort(key=lambda each: (each.partition, each.time_ms))
        rows = [each._replace(offset=number % 30) for number, each in enumerate(rows)]
    spans = []
    for _ in range(random.randrange(6)):
        (start, end), since = sorted(random.choices(range(31), k=2)), random.choice((-5, -1, 0, 6, 10, 16))
        spans.append(Span(random.randrange(2), start, end, since, random.choice((None, since, since + 5, since + 11))))
    log, plain = log_of(FakeAdmin(rows)), Log(rows)
    parts = log.digest_parts("t", spans, 7)
    for bucket_offsets in (7, 1 << 16):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(proof, "BUCKET_OFFSETS", bucket_offsets)
            assert make_buckets(parts) == make_buckets(plain.digest_parts("t", spans, 7))
    assert log.digest("t", spans) == plain.digest("t", spans)


def test_spans_hold_each_record_of_the_run_once() -> None:
    spans = spans_of(PLAN, time_zone("UTC"))
    wanted = {(each.partition, each.offset) for each in taken(records())}
    for row in records():
        count = sum(
            each.partition == row.partition
            and each.start <= row.offset < each.end
            and each.since_ms <= row.time_ms
            and (each.until_ms is None or row.time_ms < each.until_ms)
            for each in spans
        )
        assert count == ((row.partition, row.offset) in wanted), row


def test_spans_of_a_date_that_goes_on_after_the_next_one_has_begun() -> None:
    """Clocks in Newfoundland went from 00:01 back to 23:01; the digests of the later date had the earlier one's hour."""
    begin, minute, hour = 1_289_097_000_000, 60_000, 3_600_000
    plan = RunPlan("flights", "id", date(2010, 11, 7), {0: (0, 9)}, {0: 9})
    times = [each[3:] for each in spans_of(plan, time_zone("America/St_Johns"))]
    assert times == [(begin, begin + minute), (begin + hour, begin + 25 * hour)]
    before = spans_of(replace(plan, date=date(2010, 11, 6)), time_zone("America/St_Johns"))
    assert [each[3:] for each in before] == [(begin - 24 * hour, begin), (begin + minute, begin + hour)]


@pytest.mark.parametrize("with_log", [True, False])
def test_a_row_that_is_left_out(site: Site, with_log: bool) -> None:
    site.change("a.parquet", lambda rows: [each for each in rows if each.offset != 5])
    found = site.verify(with_log=with_log)
    assert found[0] == OTHER_BYTES
    if with_log:
        assert found[1:] == [("flights-0", "offset 5 is missing")]
    else:
        assert found[1:] == [("flights-0", "1 of 13 records are missing, at offsets among 5, 7")]


def test_without_the_log_gaps_tell_the_offsets_where_nothing_else_lies_between(site: Site) -> None:
    site.change("b.parquet", lambda rows: [each for each in rows if each.offset not in (34, 37)])
    assert site.verify(with_log=False)[1:] == [("flights-0", "offsets 34, 37 are missing")]


@pytest.mark.parametrize("with_log", [True, False])
def test_a_row_that_is_doubled(site: Site, with_log: bool) -> None:
    site.change("a.parquet", lambda rows: [*rows, rows[2], rows[2]])
    problem = "offset 4 is there 3 times" if with_log else "offsets 4 are there more than once"
    assert site.verify(with_log=with_log) == [OTHER_BYTES, ("flights-0", problem)]


@pytest.mark.parametrize("with_log", [True, False])
def test_a_row_that_is_changed(site: Site, with_log: bool) -> None:
    site.change("a.parquet", lambda rows: [rows[0]._replace(value=b"x"), *rows[1:]])
    problem = "offset 2 has other contents" if with_log else "a record has other contents among offsets 0 to 15"
    assert site.verify(with_log=with_log) == [OTHER_BYTES, ("flights-0", problem)]


@pytest.mark.parametrize("with_log", [True, False])
def test_a_file_that_is_lost(site: Site, with_log: bool) -> None:
    (site.root / "dead_letters/date=1/c.parquet").unlink()
    found = site.verify(with_log=with_log)
    assert found[0] == ("dead_letters/date=1/c.parquet", "the file is lost, with 2 records")
    if with_log:
        assert found[1:] == [("flights-0", "offset 12 is missing"), ("flights-0", "offset 20 is missing")]
    else:
        assert [place for place, _ in found[1:]] == ["flights-0"] * 2


def test_a_file_that_is_there_twice(site: Site) -> None:
    copied = (site.root / "dead_letters/date=1/c.parquet").read_bytes()
    (site.root / "archive/date=1/copy.parquet").write_bytes(copied)
    found = site.verify()
    assert found[0] == ("archive/date=1/copy.parquet", "the file is none of the run's")
    assert found[1:] == [("flights-0", "offset 12 is there 2 times"), ("flights-0", "offset 20 is there 2 times")]


def test_a_file_that_cannot_be_read(site: Site) -> None:
    path = site.root / "archive/date=1/b.parquet"
    path.write_bytes(path.read_bytes()[:-30])
    found = site.verify()
    assert found[0] == ("archive/date=1/b.parquet", "the file is not as the run wrote it")
    assert found[1][0] == "archive/date=1/b.parquet" and found[1][1].startswith("cannot be read: ")
    assert any("is missing" in problem for _, problem in found[2:])


def test_an_edited_ledger(site: Site) -> None:
    """Whatever of it is edited, also together with the archive."""
    site.change("a.parquet", lambda rows: rows[1:])
    first = site.entry.digests[0]
    for forged in (
        replace(site.entry, digests=(replace(first, records=first.records - 1), *site.entry.digests[1:])),
        replace(site.entry, plan=replace(PLAN, ranges={0: (3, 40)})),
        replace(site.entry, done_ms=10),
        replace(site.entry, signature=site.entry.signature[:-1] + ("1" if site.entry.signature[-1] == "0" else "0")),
        replace(site.entry, signature="nonsense"),
    ):
        site.storage.write("_ledger/archive/flights/2013-06-15.json", forged.encode())
        ((place, problem),) = site.verify()
        assert (place, problem) == (
            "ledger",
            "the signature is not that of this entry and key: nothing that it says counts",
        )
    site.storage.write("_ledger/archive/flights/2013-06-15.json", replace(site.entry, signature="").encode())
    assert site.verify() == [("ledger", "the entry is not signed: nothing that it says counts")]
    site.storage.remove("_ledger/archive/flights/2013-06-15.json")
    assert site.verify() == [("ledger", "no finished run: the ledger has no such entry")]


def test_a_run_without_a_key_noted_nothing(site: Site) -> None:
    site.ledger.finish(replace(site.entry, zone="", digests=()), 9)
    (found,) = verify.main(site.storage, None, ["flights"], [DAY], None)
    assert [each.problem for each in found.findings] == ["the run noted no digests; run it with --ledger-key"]


def test_after_retention_the_ledger_alone_proves(site: Site) -> None:
    site.log.begin = 20
    site.log.rows = [each for each in site.log.rows if each.offset >= 20]
    assert site.verify() == []
    (found,) = verify.main(site.storage, site.log, ["flights"], [DAY], None)
    assert found.in_log == 8, "the bucket from 32 on is there as a whole"
    site.change("b.parquet", lambda rows: [each for each in rows if each.offset not in (14, 35)])
    problems = site.verify()[1:]
    assert problems == [
        ("flights-0", "1 of 13 records are missing, at offsets among 7, 14"),
        ("flights-0", "offset 35 is missing"),
    ]


def test_another_topic_of_the_same_name_is_not_asked(site: Site) -> None:
    site.log.topic_id, site.log.rows, site.log.asked = "other", [], 0
    assert (site.verify(), site.log.asked) == ([], 0)
    (found,) = verify.main(site.storage, site.log, ["flights"], [DAY], None)
    assert found.in_log == 0


def test_a_log_that_is_not_what_the_run_has_read(site: Site) -> None:
    site.log.rows = [each._replace(key=b"other") if each.offset == 36 else each for each in site.log.rows[:-1]]
    assert site.verify() == [
        ("flights-0", "the log has other records among offsets 32 to 47 than the ledger"),
        ("flights-1", "the log has 5 records among offsets 0 to 15, the ledger 6"),
    ]


def test_differences_end_the_command(site: Site) -> None:
    site.change("a.parquet", lambda rows: rows[1:])
    found = verify.main(site.storage, site.log, ["flights"], [DAY], None)
    with pytest.raises(
        DifferencesError, match=r"^2 findings:\n  flights 2013-06-15 archive/date=1/a.parquet: the file "
    ):
        verify.judge(found)
    arguments = ["verify", "--topic", "flights", "--output", str(site.root), "--date", "2013-06-15", "--no-log"]
    result = CliRunner().invoke(main, [*arguments, "--ledger-key", str(site.public)])
    assert result.exit_code == 7 and "1 of 13 records are missing, at offsets among 2, 7" in result.stderr
    other = site.root / "other.key"
    other.write_bytes(Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert "the signature is not that" in CliRunner().invoke(main, [*arguments, "--ledger-key", str(other)]).stderr


def test_keys_that_are_none(tmp_path: Path) -> None:
    rsa = generate_private_key(65537, 2048)
    (tmp_path / "rsa").write_bytes(rsa.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (tmp_path / "text").write_text("no key")
    for name, message in (
        ("rsa", "another kind than Ed25519"),
        ("text", "has no "),
        ("missing", "cannot read the key"),
    ):
        for load in (load_signer, load_checker):
            with pytest.raises(BadRequestError, match=message):
                load(tmp_path / name)  # type: ignore[operator]
