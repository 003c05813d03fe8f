"""Job `report`: the page of a night, made from the ledger and the newest audits. Needs neither brokers nor, on a local folder, Spark."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from spark_jobs.batch import layout
from spark_jobs.batch.night import now_ms
from spark_jobs.batch.storage import Storage
from spark_jobs.observation.night_view import NightReader
from spark_jobs.observation.page import write_page


def main(storage: Storage, days: Iterable[date], problem: str = "") -> list[str]:
    """Write the pages of the dates beside the ledger; return their URIs. `problem` is what a failed run says of itself. OutputError."""
    reader, written = NightReader(storage), []
    for day in days:
        path = layout.page_file(day)
        storage.write(path, write_page(reader.read_night(day, now_ms(), problem)).encode())
        written.append(f"{storage.uri}/{path}")
    return written
