"""Where everything lies below the output folder. Names that begin with an underscore are skipped by Spark, Hive, DuckDB and pandas.

    archive/topic=flights/date=2013-06-15/run=2013-06-15/part-00000-000.parquet     the records of the date
    archive/topic=flights/date=2013-06-15/run=2013-06-18/part-00000-000.parquet     late ones, found by the run of the 18th
    dead_letters/topic=flights/date=2013-06-15/run=2013-06-15/…                     records that could not be decoded, or have no date
    reprocessed/delays/topic=flights/date=2013-06-15/…                              the result of a transform, by its name
    snapshots/topic=flights/date=2013-06-15/…                                       the latest value of each key
    dead_letters_of/delays/topic=flights/date=2013-06-15/…                          what these jobs could not decode
    _sent/delays/topic=flights/date=2013-06-15/…                                    a result that only went to a topic
    _ledger/archive/flights/2013-06-15.json                                         the finished run
    _ledger/archive/flights/2013-06-15.pending.json                                 one that is planned, or being published
    _audit/flights/2013-06-15.json                                                  the newest audit of the date
    _report/2013-06-15.html                                                         the night's page, of all topics
    _staging/…                                                                      of runs that are not published (`portions`)
    _table_format.json                                                              where these are tables and no folders (`tables`)

With Delta Lake or Iceberg, `archive/topic=flights` is a table, and so are the others up to their topics; `date` and `run` partition it.

What is published and replaced as a whole is a **unit**: the folder that holds the files. It has a `_manifest.json` that lists them. On an
object store their names also say which contents they have: `part-00000-000-5f0c2a9d81e3.parquet`.
"""

from __future__ import annotations

from datetime import date
from typing import Final

ARCHIVE: Final = "archive"
DEAD_LETTERS: Final = "dead_letters"
SNAPSHOTS: Final = "snapshots"
STAGING: Final = "_staging"
LEDGER: Final = "_ledger"
MANIFEST: Final = "_manifest.json"
TABLE_FORMAT: Final = "_table_format.json"
WRITABLE: Final = f"{STAGING}/.writable"
"""Written first, to see whether anything can be."""


def run_unit(kind: str, topic: str, day: date, run: date) -> str:
    """Return the unit of what the run of the date `run` found of the date `day`; `kind` is ARCHIVE or DEAD_LETTERS."""
    return f"{kind}/topic={topic}/date={day}/run={run}"


def dated_unit(kind: str, topic: str, day: date) -> str:
    """Return the unit of a result for a date as a whole."""
    return f"{kind}/topic={topic}/date={day}"


def reprocessed_kind(name: str) -> str:
    """Return the kind of the results of a transform."""
    return f"reprocessed/{name}"


def sent_kind(name: str) -> str:
    """Return the kind of results that only went to a topic."""
    return f"_sent/{name}"


def dead_letters_of(name: str) -> str:
    """Return the kind of the dead letters of a transform, or of the snapshots."""
    return f"{DEAD_LETTERS}_of/{name}"


def attempt_folder(attempt: str) -> str:
    """Return the folder in which one attempt writes."""
    return f"{STAGING}/{attempt}"


def ledger_folder(job: str, topic: str) -> str:
    return f"{LEDGER}/{job}/{topic}"


def done_file(job: str, topic: str, day: date) -> str:
    return f"{ledger_folder(job, topic)}/{day}.json"


def pending_file(job: str, topic: str, day: date) -> str:
    return f"{ledger_folder(job, topic)}/{day}.pending.json"


def audit_file(topic: str, day: date) -> str:
    return f"_audit/{topic}/{day}.json"


def page_file(day: date) -> str:
    return f"_report/{day}.html"


def part_name(task: int, piece: int, mark: str = "") -> str:
    """Return the name of a file that a task wrote, the same at every repetition; `mark` tells files with other contents apart."""
    return f"part-{task:05d}-{piece:03d}{mark and f'-{mark}'}.parquet"
