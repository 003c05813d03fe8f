"""The format that an output folder has: recorded with its first night, since nights of two formats would not see each other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from spark_jobs.batch import layout
from spark_jobs.batch.failures import BadRequestError, OutputError
from spark_jobs.batch.ledger import jobs_with_ledger
from spark_jobs.tables.packages import FORMATS, PARQUET

if TYPE_CHECKING:
    from spark_jobs.batch.storage import Storage


def choose_format(storage: Storage, given: str | None) -> str:
    """Return the format of an output: as recorded, else as `given`, else Parquet. BadRequestError when these differ."""
    recorded = _read_recorded(storage)
    if given is not None and recorded is not None and given != recorded:
        raise BadRequestError(
            f"--table-format {given}: {storage.uri} has nights as {recorded}; leave the option out, or give another --output"
        )
    return recorded or given or PARQUET


def record_format(storage: Storage, table_format: str) -> None:
    """Record the format of a new output. Folders of Parquet need no record."""
    if table_format != PARQUET and storage.read(layout.TABLE_FORMAT) is None:
        storage.write(layout.TABLE_FORMAT, json.dumps({"table_format": table_format}).encode())


def _read_recorded(storage: Storage) -> str | None:
    data = storage.read(layout.TABLE_FORMAT)
    if data is None:
        return PARQUET if jobs_with_ledger(storage) else None
    try:
        found = json.loads(data)["table_format"]
    except (ValueError, KeyError, TypeError):
        found = None
    if found not in FORMATS:
        raise OutputError(
            f"{layout.TABLE_FORMAT} in {storage.uri} names no table format; write one of {', '.join(FORMATS)} there"
        )
    return str(found)
