"""The course of a run: durations of stages, how dates share them, and listeners that fail."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from spark_jobs.batch.comparison import Report
from spark_jobs.batch.ledger import Entry
from spark_jobs.observation.journal import PLAN, READ, Journal, share_stages
from tests.unit.spark_jobs.observation.example_runs import DAY, archive_entry, report


class Faulty:
    """A listener that fails at the first entry that is finished."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def notify_begin(self, entry: Entry, columns: Mapping[str, str]) -> None:
        self.heard.append("begin")

    def notify_finish(self, entry: Entry) -> None:
        self.heard.append("finish")
        raise OverflowError("no such time")

    def notify_audit(self, report: Report) -> None:
        self.heard.append("audit")


def test_stages_are_measured_once_each() -> None:
    times = iter([0.0, 1.0, 10.0, 10.5, 20.0, 22.0])
    journal = Journal(clock_s=lambda: next(times))
    with journal.measure(PLAN):
        pass
    with pytest.raises(KeyError), journal.measure(READ):
        raise KeyError
    with journal.measure(PLAN):
        pass
    assert journal.take_stages() == {PLAN: 3000, READ: 500}
    assert journal.take_stages() == {}


def test_dates_share_the_time_by_their_rows() -> None:
    assert share_stages({READ: 900}, 1, 3, 2) == {READ: 300}
    assert share_stages({READ: 900}, 0, 0, 2) == {READ: 450}, "equally where there are none"


def test_a_listener_that_fails_does_not_end_the_run() -> None:
    told: list[str] = []
    listener = Faulty()
    journal = Journal([listener], told.append)
    journal.begin_entry(archive_entry(), {})
    journal.finish_entry(archive_entry())
    journal.add_audit(report())
    assert listener.heard == ["begin", "finish"]
    assert told == ["warning: the run is not told of any more: OverflowError: no such time"]
    assert (len(journal.entries), len(journal.audits), journal.begun) == (1, 1, {DAY})
