"""Results on stdout: aligned columns for people, numbers at the right, every field for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

FORMATS: Final = ("table", "json", "jsonl")


def write_rows(rows: Sequence[Mapping[str, Any]], shape: str, columns: Sequence[str]) -> None:
    """Print rows; `columns` are for people. `shape` is one of FORMATS."""
    if shape == "json":
        lines = [json.dumps(list(rows), indent=2)]
    elif shape == "jsonl":
        lines = [json.dumps(row) for row in rows]
    else:
        lines = _table(rows, columns)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[str]:
    cells = [[column.replace("_", " ").upper() for column in columns]]
    cells += [["-" if row.get(column) is None else str(row[column]) for column in columns] for row in rows]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    numeric = [_has_numbers(rows, column) for column in columns]
    return [_line(line, widths, numeric) for line in cells]


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = (
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    )
    return "  ".join(padded).rstrip()


def _has_numbers(rows: Sequence[Mapping[str, Any]], column: str) -> bool:
    """True if a column has numbers, and nothing else but gaps: they are aligned at the right."""
    values = [value for row in rows if (value := row.get(column)) is not None]
    return bool(values) and all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)
