"""How commands speak: data on stdout in the shape that `-o` names, everything else on stderr, and one exit code per kind of end.

`table` is for people (aligned columns, in colour on a terminal), `wide` the same with more columns. `json`, `jsonl`, `yaml` and `csv`
have every field under stable names; `name` prints only names, one per line, for pipes.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NoReturn, TypeVar

import click

FORMATS = ("table", "wide", "json", "jsonl", "yaml", "csv", "name")

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class Exit(IntEnum):
    """Exit codes of all commands."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    EXISTS = 4
    UNREACHABLE = 5
    NOT_AUTHORIZED = 6
    CHECK_FAILED = 7


def output_option(default: str = "table", formats: Sequence[str] = FORMATS) -> Callable[[Decorated], Decorated]:
    """The option `-o`, passed as `output`."""
    return click.option("-o", "--output", type=click.Choice(formats), default=default, show_default=True)


def note(text: str) -> None:
    """Tell the user something that is not data."""
    click.echo(text, err=True)


def fail(text: str, code: Exit = Exit.FAILED) -> NoReturn:
    """End the command with a line on stderr."""
    note(f"Error: {text}")
    raise SystemExit(int(code))


def write_line(text: str) -> None:
    """One line of data. A reader that went away (`| head`) ends the command quietly."""
    try:
        sys.stdout.write(text + "\n")
    except BrokenPipeError:
        _quiet_end()


def flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _quiet_end()


def _quiet_end() -> NoReturn:
    sys.stderr.close()
    raise SystemExit(int(Exit.OK))


def write_rows(
    rows: Sequence[Mapping[str, Any]], output: str, *, columns: Sequence[str], wide: Sequence[str] = (), name: str
) -> None:
    """Print rows in the shape `output`; `columns` (and `wide` ones) are for people, `name` is the field that names a row."""
    match output:
        case "json":
            write_line(json.dumps(list(rows), indent=2))
        case "jsonl":
            for row in rows:
                write_line(json.dumps(row))
        case "yaml":
            write_line("\n".join(_yaml(list(rows), 0)))
        case "csv":
            _write_csv(rows)
        case "name":
            for row in rows:
                write_line(str(row[name]))
        case _:
            _write_table(rows, [*columns, *(wide if output == "wide" else ())])
    flush()


def _write_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(rows[0])
    for row in rows:
        writer.writerow([cell if isinstance(cell, str | int | float) else json.dumps(cell) for cell in row.values()])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(_cell(each) for each in value) or "-"
    return str(value)


def _write_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    titles = [column.replace("_", " ").upper() for column in columns]
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(*titles, box=None, pad_edge=False, header_style="bold")
        for line in cells:
            table.add_row(*line)
        Console().print(table)
        return
    widths = [max(len(line[index]) for line in [titles, *cells]) for index in range(len(columns))]
    for line in [titles, *cells]:
        write_line("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _yaml(value: Any, depth: int) -> list[str]:
    """Lines of YAML; scalars as JSON, which YAML 1.2 includes."""
    pad = "  " * depth
    if isinstance(value, Mapping) and value:
        lines = []
        for key, item in value.items():
            if isinstance(item, Mapping | list | tuple) and item:
                lines += [f"{pad}{key}:", *_yaml(item, depth + 1)]
            else:
                lines.append(f"{pad}{key}: {json.dumps(item)}")
        return lines
    if isinstance(value, list | tuple) and value:
        lines = []
        for item in value:
            inner = _yaml(item, depth + 1)
            lines += [f"{pad}- {inner[0].lstrip()}", *inner[1:]]
        return lines
    return [f"{pad}{json.dumps(value)}"]
