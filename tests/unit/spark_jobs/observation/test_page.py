"""The page of a night: what it says of good and bad nights, of entries of before, and that it needs nothing but itself."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner

from spark_jobs.batch import layout
from spark_jobs.batch.ledger import Entry, Ledger
from spark_jobs.batch.storage import LocalStorage
from spark_jobs.commands import main
from spark_jobs.jobs import report as job
from spark_jobs.observation import charts
from spark_jobs.observation.night_view import BAD, GOOD, WARN, NightReader
from spark_jobs.observation.page import write_page
from spark_jobs.observation.run_facts import LATENESS_BOUNDS_MS, class_names
from tests.unit.spark_jobs.observation.example_runs import DAY, DAY_MS, HOUR_MS, archive_entry, report

VOID = ("meta", "link", "br")


class Read(HTMLParser):
    """The text that is to be read, the tags, and what they refer to; fails where tags are not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        self.ids += [found["id"]] if found.get("id") else []
        self.links += [str(found[name]) for name in ("href", "src") if name in found]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "title"):
            self.words.append(data)


def put(tmp_path: Path, *entries: Entry, audits: tuple[dict[str, Any], ...] = ()) -> LocalStorage:
    storage = LocalStorage(tmp_path)
    for entry in entries:
        Ledger(storage, entry.job).finish(entry, entry.done_ms)
    for audit in audits:
        storage.write(layout.audit_file(audit["topic"], date.fromisoformat(audit["date"])), json.dumps(audit).encode())
    return storage


def page_of(storage: LocalStorage, day: date = DAY, problem: str = "") -> Read:
    night = NightReader(storage).read_night(day, DAY_MS + 100_000_000, problem)
    return Read(write_page(night))


def level_of(storage: LocalStorage, day: date = DAY) -> str:
    return NightReader(storage).read_night(day, 0).level


def nights_before(records: int) -> list[Entry]:
    return [
        replace(
            archive_entry(day=DAY - timedelta(days=number)), counts={"records": records, "late": 0, "dead_letters": 0}
        )
        for number in (1, 2, 4)
    ]


def test_the_page_says_what_a_night_did(tmp_path: Path) -> None:
    audit = {**report().to_dict(), "records": 125, "hours": [{}] * 3}
    read = page_of(put(tmp_path, archive_entry(), *nights_before(125), audits=(audit,)))
    for part in (
        "Saturday, 15 June 2013",
        "125 records, the topic is archived; log and archive agree.",
        "! flights : 3 late records not taken yet: the next run takes them; 10 dead letters".removeprefix("! "),
        "Records 125 0% more than usual",
        "Late 5 of earlier dates",
        "Dead letters 10 7.41% of all",
        "Busiest at 00:00 with 90 records; none at 01:00, 02:00",
        "93.8% of 128 records came in order.",
        "by 1 day at most: up to 1 s 5 up to 10 s 0 up to 1 min 2 up to 10 min 0 up to 1 h 0 up to 1 day 1 ",
        "Records of earlier dates, archived under their own: 2013-06-14 5",
        'value: not JSON 8 key: field "x" is missing 2 dead_letters/topic=flights/date=2013-06-15/run=2013-06-15',
        "archive 2.6 s plan 40 ms read 2.5 s check 12 ms publish 35 ms",
        "Log and archive agree. Number, offsets, times and fingerprint of 125 records were compared in 3 hours",
        "0 5 105 100 95 1 0 40 40 30",
    ):
        assert part in read.text, part
    table = read.text.partition("Records by partition (down) and hour (across)")[2]
    assert re.search(r"all 0 60( 0){6} 35( 0){16} 95 1 30( 0){23} 30 ", table)


def test_the_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    storage = put(tmp_path, archive_entry(), archive_entry("orders"))
    page = write_page(NightReader(storage).read_night(DAY, DAY_MS))
    read = Read(page)
    assert "script" not in read.tags and "img" not in read.tags and "iframe" not in read.tags
    own = [link for link in read.links if link != "data:,"]
    assert own and {link.removeprefix("#") for link in own} <= set(read.ids)
    assert "url(" not in page and "@import" not in page and "default-src 'none'" in page
    assert 'lang="en"' in page and "prefers" not in page and "color-scheme: light dark" in page


@pytest.mark.parametrize(
    ("change", "level", "text"),
    [
        ({}, GOOD, "log and archive agree"),
        ({"pending": 2}, WARN, "2 late records not taken yet"),
        ({"differences": [{"place": "flights-0 2013-06-15T07:00Z", "problem": "x < y"}]}, BAD, "differ in 1 place"),
    ],
)
def test_audits_decide_how_good_a_night_was(tmp_path: Path, change: dict[str, Any], level: str, text: str) -> None:
    entry = replace(archive_entry(), counts={"records": 125, "late": 5, "dead_letters": 0})
    audit = {**report().to_dict(), "pending": 0, **change}
    storage = put(tmp_path, entry, audits=(audit,))
    assert level_of(storage) == level
    read = page_of(storage)
    assert text in read.text
    if "differences" in change:
        assert "partition 0, 2013-06-15T07:00Z x < y" in read.text


def test_nights_that_are_not_as_they_should_be(tmp_path: Path) -> None:
    audit = {**report().to_dict(), "pending": 0}
    entry = replace(archive_entry(), counts={"records": 10, "late": 0, "dead_letters": 0})
    storage = put(tmp_path, entry, *nights_before(100), audits=(audit,))
    assert level_of(storage) == WARN and "10% of the records of a usual night" in page_of(storage).text
    lost = replace(entry, plan=replace(entry.plan, lost={0: (2, 9)}))
    Ledger(storage, "archive").finish(lost, 1)
    assert (
        level_of(storage) == BAD and "7 offsets deleted by retention before any run read them" in page_of(storage).text
    )
    assert level_of(storage, DAY + timedelta(days=1)) == BAD
    assert "not archived: the ledger has no run of this date" in page_of(storage, DAY + timedelta(days=1)).text
    Ledger(storage, "archive").put_pending(
        replace(entry, state="planned", plan=replace(entry.plan, date=date(2013, 6, 16)))
    )
    read = page_of(storage, DAY + timedelta(days=1), "The run failed: no broker can be reached")
    assert "archive is planned, and not done: run the date again" in read.text
    assert "The run failed: no broker can be reached" in read.text


def test_names_and_reasons_are_text(tmp_path: Path) -> None:
    """What producers have written stands in reasons."""
    facts = archive_entry().facts
    assert facts is not None
    entry = replace(archive_entry(), job="archive", facts=replace(facts, dead_letters={"<b onclick='x'>&amp;": 10}))
    read = page_of(put(tmp_path, entry), problem="</li><script>alert(1)</script>")
    assert "<b onclick='x'>&amp; 10" in read.text and "</li><script>alert(1)</script>" in read.text
    assert "script" not in read.tags


def test_entries_of_before_and_odd_files_have_a_page(tmp_path: Path) -> None:
    storage = put(tmp_path, replace(archive_entry(), facts=None, done_ms=2**62))
    storage.write(layout.audit_file("flights", DAY), b"{")
    read = page_of(storage)
    assert "an earlier version has written it" in read.text and "not audited" in read.text
    assert "reason not recorded 10" in read.text


def test_a_night_of_no_records_has_a_page(tmp_path: Path) -> None:
    facts = archive_entry().facts
    assert facts is not None
    empty = replace(facts, hours={}, lateness=type(facts.lateness)(), dead_letters={}, stages_ms={})
    entry = replace(archive_entry(), facts=empty, units=(), counts={"records": 0, "late": 0, "dead_letters": 0})
    read = page_of(put(tmp_path, entry))
    assert "No records of this day." in read.text and "No records." in read.text


def test_dead_letters_of_several_jobs_are_apart(tmp_path: Path) -> None:
    """They may be of the same records."""
    snapshot = replace(archive_entry(), job="compact", counts={"rows": 9, "dead_letters": 2})
    read = page_of(put(tmp_path, archive_entry(), snapshot))
    assert "dead letters: archive 10, compact 2" in read.text and "Dead letters 10 7.41% of all" in read.text


def test_clocks_of_the_zone(tmp_path: Path) -> None:
    """The day of New York has other hours; where clocks change it has 23 or 25."""
    facts = archive_entry().facts
    assert facts is not None
    entry = replace(
        archive_entry(), facts=replace(facts, zone="America/New_York", hours={DAY_MS + 4 * HOUR_MS: {0: 9}})
    )
    assert "Busiest at 00:00 with 9 records" in page_of(put(tmp_path, entry)).text
    berlin = ZoneInfo("Europe/Berlin")
    assert [len(charts.hours_of_day(day, berlin)) for day in (date(2013, 3, 31), date(2013, 10, 27))] == [23, 25]
    india = charts.hours_of_day(DAY, ZoneInfo("Asia/Kolkata"))
    assert [charts.hour_label(hour, ZoneInfo("Asia/Kolkata")) for hour in (india[0], india[-1])] == ["23:30", "23:30"]


def test_many_partitions_share_rows() -> None:
    partitions = list(range(1000))
    page = charts.heat_map({DAY_MS: dict.fromkeys(partitions, 1)}, partitions, DAY, ZoneInfo("UTC"))
    assert page.count("<tr>") == charts.ROWS_MAX + 1
    assert '<th scope="row">0–24</th>' in page and '<th scope="row">975–999</th>' in page
    assert "25 an hour" in page


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.0 s"),
        (59_940, "59.9 s"),
        (59_960, "1 min"),
        (185_000, "3 min 5 s"),
        (3_720_000, "1 h 2 min"),
        (86_400_000, "1 day"),
        (183_600_000, "2 days 3 h"),
    ],
)
def test_durations_as_people_say_them(ms: int, text: str) -> None:
    assert charts.duration(ms) == text


def test_numbers_for_little_room() -> None:
    assert [charts.shorten(each) for each in (0, 999, 1000, 12_345, 3.5e7, 9e15)] == [
        "0",
        "999",
        "1.0k",
        "12k",
        "35M",
        "9000T",
    ]
    assert [charts.size(each) for each in (1, 1500, 14_800_000, 10**21)] == [
        "1 B",
        "1.5 kB",
        "14.8 MB",
        "1000000 PB",
    ]
    assert len(class_names()) == len(LATENESS_BOUNDS_MS) + 1 and class_names()[-1] == "more than 1 day"


def test_the_command_makes_the_page_again(tmp_path: Path) -> None:
    storage = put(tmp_path, archive_entry())
    result = CliRunner().invoke(main, ["report", str(DAY), "--output", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (0, f"{storage.uri}/_report/{DAY}.html\n"), result.output
    assert "<h2>flights</h2>" in (tmp_path / "_report" / f"{DAY}.html").read_text()
    assert CliRunner().invoke(main, ["report", "soon", "--output", str(tmp_path)]).exit_code == 2


def test_pages_of_many_dates_read_each_entry_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = put(tmp_path, *(archive_entry(day=DAY + timedelta(days=number)) for number in range(30)))
    asked: list[str] = []
    read = LocalStorage.read

    def counted(self: LocalStorage, path: str) -> bytes | None:
        asked.append(path)
        return read(self, path)

    monkeypatch.setattr(LocalStorage, "read", counted)
    assert len(job.main(storage, [DAY + timedelta(days=number) for number in range(30)])) == 30
    done = [path for path in asked if path.startswith(layout.LEDGER) and "pending" not in path]
    assert len(done) == len(set(done)) == 30 + 13
