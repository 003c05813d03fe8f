"""Results on stdout: aligned columns for people, every field for programs."""

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
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
