"""Output of commands: data on stdout in the shape that `-o` names, everything else on stderr, and the exit codes.

`table` is for people (aligned columns, numbers at the right, states in colour on a terminal), `wide` the same with more columns;
`--no-headers` leaves the titles away. `json`, `jsonl`, `yaml` and `csv` have every field under stable names; `name` prints only names,
one per line, for pipes.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import groupby
from typing import Any, Final, NoReturn, TypeVar

import click

FORMATS = ("table", "wide", "json", "jsonl", "yaml", "csv", "name")

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Row = Mapping[str, Any]

_NO_HEADERS = "kafkalite.cli.output.no_headers"


class Exit(IntEnum):
    """Exit codes of all commands."""

    OK = 0
    FAILED = 1
    """The command failed as a whole or in part; each item that failed has a line on stderr."""
    USAGE = 2
    """The command line is invalid, or consent was needed and not given."""
    NOT_FOUND = 3
    """A topic, partition, group, broker or file does not exist."""
    EXISTS = 4
    """It exists already."""
    UNREACHABLE = 5
    """The cluster cannot be reached, or the time limit was exceeded."""
    NOT_AUTHORIZED = 6
    CHECK_FAILED = 7
    """The command worked, and its check found a problem."""
    INTERRUPTED = 130


def output_option(default: str = "table", formats: Sequence[str] = FORMATS) -> Callable[[Decorated], Decorated]:
    """Add the option `-o`, passed as `output`; and for tables and CSV `--no-headers`, which `write_rows` reads itself."""
    shape = click.option("-o", "--output", type=click.Choice(formats), default=default, show_default=True)
    if "csv" not in formats:
        return shape
    headers = click.option(
        "--no-headers",
        is_flag=True,
        expose_value=False,
        callback=lambda ctx, _, value: ctx.meta.__setitem__(_NO_HEADERS, value),
        help="With tables and CSV: no header line.",
    )
    return lambda function: shape(headers(function))


def _with_headers() -> bool:
    context = click.get_current_context(silent=True)
    return context is None or not context.meta.get(_NO_HEADERS, False)


_SEVERITIES: Final = {"Error:": "red", "warning:": "yellow"}
"""How messages of these kinds begin, with the colours of that word."""


def note(text: str) -> None:
    """Print a message that is not data on stderr. On a terminal the word that says how bad it is has a colour, unless NO_COLOR is set."""
    word = text.partition(" ")[0]
    colour = _SEVERITIES.get(word)
    if (
        colour is not None
        and sys.stderr.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    ):
        text = click.style(word, fg=colour, bold=True) + text.removeprefix(word)
    click.echo(text, err=True)


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun: "1 record", "2 records"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def fail(text: str, code: Exit = Exit.FAILED) -> NoReturn:
    """End the command with a line on stderr."""
    fail_each([text], code)


def fail_each(texts: Iterable[str], code: Exit) -> NoReturn:
    """End the command with a line on stderr for each item that failed."""
    for text in texts:
        note(f"Error: {text}")
    raise SystemExit(int(code))


def write_line(text: str) -> None:
    """Write one line of data. What becomes of data that stdout does not take: see `kafkalite.standard_streams`."""
    sys.stdout.write(text + "\n")


def write_bytes(data: bytes) -> None:
    """Write data as it is, whatever the locale."""
    sys.stdout.buffer.write(data)


def flush() -> None:
    """Write what is buffered of stdout."""
    sys.stdout.flush()


def write_rows(
    rows: Sequence[Row],
    output: str,
    *,
    columns: Sequence[str],
    wide: Sequence[str] = (),
    name: str | Callable[[Row], str],
) -> None:
    """Print rows in the shape `output`; `columns` (and `wide` ones) are for people, `name` is the field that names a row.

    Rows of one name that follow each other are named once.
    """
    match output:
        case "json":
            write_line(_as_json(list(rows), indent=2))
        case "jsonl":
            for row in rows:
                write_line(_as_json(row))
        case "yaml":
            write_line("\n".join(_yaml(list(rows), 0)))
        case "csv":
            _write_csv(rows)
        case "name":
            for named, _ in groupby(name(row) if callable(name) else str(row[name]) for row in rows):
                write_line(named)
        case _:
            _write_table(rows, [*columns, *(wide if output == "wide" else ())])
    flush()


def _as_json(value: Any, indent: int | None = None) -> str:
    import json  # most results are tables

    return json.dumps(value, indent=indent)


def partition_name(row: Row) -> str:
    """Return the name of a row about a partition, "topic-3"."""
    return f"{row['topic']}-{row['partition']}"


def _write_csv(rows: Sequence[Row]) -> None:
    if not rows:
        return
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    if _with_headers():
        writer.writerow(rows[0])
    for row in rows:
        writer.writerow([_csv_cell(value) for value in row.values()])
    write_line(lines.getvalue().removesuffix("\n"))


def _csv_cell(value: Any) -> Any:
    """Return text and numbers as they are, nothing for null, everything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else _as_json(value)


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list | tuple):
        return ",".join(_cell(each) for each in value) or "-"
    return str(value)


def _write_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    titles = [column.replace("_", " ").upper() for column in columns]
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    numeric = [_has_numbers(rows, column) for column in columns]
    if sys.stdout.isatty():
        _write_rich_table(columns, titles, cells, numeric)
        return
    lines = [titles, *cells] if _with_headers() else cells
    widths = [max((len(line[index]) for line in lines), default=0) for index in range(len(columns))]
    for line in lines:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        write_line("  ".join(padded).rstrip())


def _has_numbers(rows: Sequence[Row], column: str) -> bool:
    """True if a column has numbers, and nothing else but gaps: these are compared digit by digit, so they are aligned at the right."""
    values = [value for row in rows if (value := row.get(column)) is not None]
    return bool(values) and all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)


def _write_rich_table(
    columns: Sequence[str], titles: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool]
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", show_header=_with_headers())
    for title, right in zip(titles, numeric, strict=True):
        table.add_column(title, justify="right" if right else "left")
    for line in cells:
        # Text is not markup: "[x]" stands for itself.
        table.add_row(*(Text(cell, colour_of(column, cell)) for column, cell in zip(columns, line, strict=True)))
    Console().print(table)


_COLOURS: Final = {
    "status": {"ok": "green", "warning": "yellow", "problem": "bold red", "skipped": "dim"},
    "healthy": {"yes": "green", "no": "bold red"},
    "state": {
        "ok": "green",
        "online": "green",
        "done": "green",
        "Stable": "green",
        "under-replicated": "yellow",
        "PreparingRebalance": "yellow",
        "CompletingRebalance": "yellow",
        "moving": "yellow",
        "unavailable": "bold red",
        "different": "bold red",
        "missing": "bold red",
        "Dead": "bold red",
    },
}
"""Colours by column and cell. The word is there in any case, so nobody needs to see colours."""


def colour_of(column: str, cell: str) -> str:
    """Return the style of a cell that says how well something is; empty for any other."""
    return _COLOURS.get(column, {}).get(cell, "")


def _yaml(value: Any, depth: int) -> list[str]:
    """Return lines of YAML; scalars as JSON, which YAML 1.2 includes."""
    pad = "  " * depth
    if isinstance(value, Mapping) and value:
        lines = []
        for key, item in value.items():
            if isinstance(item, Mapping | list | tuple) and item:
                lines += [f"{pad}{key}:", *_yaml(item, depth + 1)]
            else:
                lines.append(f"{pad}{key}: {_as_json(item)}")
        return lines
    if isinstance(value, list | tuple) and value:
        lines = []
        for item in value:
            inner = _yaml(item, depth + 1)
            lines += [f"{pad}- {inner[0].lstrip()}", *inner[1:]]
        return lines
    return [f"{pad}{_as_json(value)}"]
