"""The target of `group reset-offsets` from its options (`offset_reset` has the arithmetic). Pure but for reading files.

A file has a line for each partition, `topic,partition,offset`, as Kafka's tools take it; or it begins with a line of column names, of
which `topic`, `partition` and `new_offset` (or `offset`) are read, so that what a dry run shows with `-o csv` can be executed later.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from kafkalite.offset_reset import FromTime, Listed, Named, Shift, Target, ToOffset
from kafkalite.timestamps import parse_time
from kafkalite.types import TopicPartition

_DURATION = re.compile(
    r"P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


def target_of(
    *,
    to_earliest: bool,
    to_latest: bool,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
    to_offset: int | None,
    from_file: Path | None,
    now_ms: int,
) -> Target:
    """Return the target of the options. Raises UsageError unless exactly one was given, and BadParameter."""
    options = {
        "--to-earliest": to_earliest or None,
        "--to-latest": to_latest or None,
        "--to-datetime": to_datetime,
        "--by-duration": by_duration,
        "--shift-by": shift_by,
        "--to-offset": to_offset,
        "--from-file": from_file,
    }
    given = [name for name, value in options.items() if value is not None]
    if len(given) != 1:
        raise click.UsageError(
            f"give exactly one of {', '.join(options)}" + (f"; not {', '.join(given)}" if given else "")
        )
    if to_datetime is not None:
        return FromTime(max(0, parse_datetime(to_datetime)))
    if by_duration is not None:
        return FromTime(max(0, now_ms - parse_duration(by_duration)))
    if shift_by is not None:
        return Shift(shift_by)
    if to_offset is not None:
        return ToOffset(to_offset)
    if from_file is not None:
        return Listed(read_offsets(from_file))
    return Named("earliest" if to_earliest else "latest")


def parse_datetime(text: str, option: str = "--to-datetime") -> int:
    """Return a time in ISO 8601 as ms since 1970, in UTC when no zone is named, as with Kafka's tools. Raises BadParameter, which names
    the option.
    """
    try:
        return parse_time(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not like 2013-01-31T06:00:00", param_hint=option) from None


def parse_duration(text: str) -> int:
    """Return a duration in ISO 8601, "P1DT2H30M", as ms. Months and years have no fixed length. Raises BadParameter."""
    found = _DURATION.fullmatch(text.upper())
    parts = {unit: float(number) for unit, number in found.groupdict().items() if number} if found else {}
    try:
        if not parts or text.upper().endswith("T"):
            raise ValueError(text)
        return timedelta(**parts) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is not like P1DT2H30M or PT15M", param_hint="--by-duration") from None


def read_offsets(file: Path) -> dict[TopicPartition, int]:
    """Return the offsets in a file of lines topic,partition,offset, or with a line of column names. Raises BadParameter, which names the
    line.
    """
    names = ["topic", "partition", "offset"]
    found: dict[TopicPartition, int] = {}
    with file.open(newline="", encoding="utf-8", errors="replace") as lines:
        reader = csv.reader(lines)
        for row in _rows(reader, file):
            if not row:
                continue
            if reader.line_num == 1 and {"topic", "partition"} <= set(row):
                names = ["offset" if name == "new_offset" else name for name in row]
                continue
            try:
                fields = dict(zip(names, row, strict=True))
                partition, offset = TopicPartition(fields["topic"], int(fields["partition"])), int(fields["offset"])
            except (KeyError, ValueError):
                raise _wrong_line(file, reader.line_num, "is not like topic,partition,offset") from None
            if partition in found:
                raise _wrong_line(file, reader.line_num, f"names {partition} again")
            found[partition] = offset
    if not found:
        raise click.BadParameter(f"{file} is empty", param_hint="--from-file")
    return found


def _rows(reader: Any, file: Path) -> Iterator[list[str]]:
    """Yield the rows of a `csv.reader`. Raises BadParameter."""
    try:
        yield from reader
    except csv.Error as problem:
        raise _wrong_line(file, reader.line_num, f"cannot be read: {problem}") from None


def _wrong_line(file: Path, number: int, problem: str) -> click.BadParameter:
    return click.BadParameter(f"line {number} of {file} {problem}", param_hint="--from-file")
