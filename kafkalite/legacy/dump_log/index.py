"""Index files in `kafka-dump-log`, compared with the segment beside them."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from typing import Any

from kafkalite.legacy.command_line.failures import ToolError
from kafkalite.storage.inspection import BATCH, Depth, Row, examine


def _entries(path: Path, *, sanity_only: bool) -> list[dict[str, Any]]:
    """Return the entries of an index. Raises ToolError when it is damaged and only its sanity is checked."""
    found = []
    for each in examine(path):
        if isinstance(each, Row):
            found.append(each.fields)
        elif sanity_only:
            raise ToolError(each.reason, "org.apache.kafka.storage.internals.log.CorruptIndexException")
    return found


def _batches(path: Path, depth: Depth = Depth.HEADERS) -> list[dict[str, Any]]:
    return [
        each.fields for each in examine(path.with_suffix(".log"), depth) if isinstance(each, Row) and each.kind == BATCH
    ]


def offset_index(path: Path, *, sanity_only: bool, verify_only: bool) -> list[str]:
    """Print the entries, and return complaints about those whose batch is not in the segment."""
    entries = _entries(path, sanity_only=sanity_only)
    if not entries:
        print(f"{path} is empty.")
        return []
    if sanity_only:
        print(f"{path} passed sanity check.")
        return []
    last_offset_at = {batch["position"]: batch["last_offset"] for batch in _batches(path)}
    wrong: list[str] = []
    for entry in entries:
        offset, found = entry["offset"], last_offset_at.get(entry["log_position"], -1)
        if found != offset:
            wrong.insert(0, f"  Index offset: {offset}, log offset: {found}")
        if not verify_only:
            print(f"offset: {offset} position: {entry['log_position']}")
    return [f"Mismatches in :{path.absolute()}", *wrong] if wrong else []


def time_index(path: Path, *, sanity_only: bool, verify_only: bool) -> list[str]:
    """Print the entries, and return complaints about those that disagree with the times in the segment."""
    entries = _entries(path, sanity_only=sanity_only)
    if sanity_only:
        print(f"{path} passed sanity check.")
        return []
    batches = _batches(path)
    ends = [batch["last_offset"] for batch in batches]
    mismatches, disorder, missing, previous = [], [], [], -1
    for entry in entries:
        timestamp, offset = entry["timestamp"], entry["offset"]
        position = bisect_left(ends, offset)
        if position == len(ends) or ends[position] != offset:
            found = ends[position] if position < len(ends) else -1
            missing.append(f"Indexed offset: {offset}, found log offset: {found}")
        else:
            actual = batches[position]["max_timestamp"]
            if actual != timestamp:
                mismatches.append(f"  Index timestamp: {timestamp}, log timestamp: {actual}")
            if previous >= timestamp:
                disorder.append(f"  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}")
        if not verify_only:
            print(f"timestamp: {timestamp} offset: {offset}")
        previous = timestamp
    return [
        *_add_heading(f"Found timestamp mismatch in :{path.absolute()}", mismatches),
        *_add_heading(f"Found out of order timestamp in :{path.absolute()}", disorder),
        *_add_heading("The following indexed offsets are not found in the log.", missing),
    ]


def _add_heading(title: str, lines: list[str]) -> list[str]:
    return [title, *lines] if lines else []
