"""What a run that is not done has read so far, for people who look: from the records of its portions. Needs no Spark."""

from __future__ import annotations

import json
from dataclasses import replace

from spark_jobs.batch import layout
from spark_jobs.batch.ledger import PLANNED, Entry, Unit
from spark_jobs.batch.storage import Storage


def add_staged_files(storage: Storage, entry: Entry) -> Entry:
    """Return an entry that is planned with the files that its attempt has recorded, and their rows among its counts; others as they are."""
    if entry.state != PLANNED:
        return entry
    folder = f"{layout.attempt_folder(entry.attempt)}/portions"
    units: list[Unit] = []
    for each in storage.entries(folder):
        try:
            document = json.loads(storage.read(f"{folder}/{each.name}") or b"")
            units += [Unit.from_json(unit) for run, unit in document["units"] if run == str(entry.plan.date)]
        except (ValueError, KeyError, TypeError):  # a file that is being written, or none of ours
            continue
    if not units:
        return entry
    archived = [unit for unit in units if unit.path.startswith(f"{layout.ARCHIVE}/")]
    late = sum(unit.rows for unit in archived if unit.date != str(entry.plan.date))
    counts = {
        "records": sum(unit.rows for unit in archived) - late,
        "late": late,
        "dead_letters": sum(unit.rows for unit in units) - sum(unit.rows for unit in archived),
    }
    return replace(entry, units=tuple(units), counts=counts)
