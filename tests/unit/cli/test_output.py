"""Shapes of output: what people and programs get of the same rows."""

from __future__ import annotations

import csv
import io
import json
import re

import click
import pytest
import yaml  # of the test extra's packages: what other programs make of our YAML
from click.testing import CliRunner

from kafkalite.cli.output import note, output_option, partition_name, write_rows

ROWS = [
    {"topic": "t", "partition": 0, "isr": [1, 2], "lag": None, "ok": True, "note": "", "rate": 5.0},
    {"topic": "t", "partition": 1, "isr": [], "lag": 3, "ok": False, "note": 'a "b", c', "rate": 0.5},
]


@click.command()
@output_option()
@click.option("--by-topic", is_flag=True)
@click.option("--empty", is_flag=True)
def show(output: str, by_topic: bool, empty: bool) -> None:
    name = "topic" if by_topic else partition_name
    write_rows(
        [] if empty else ROWS,
        output,
        columns=["topic", "partition", "isr", "lag", "ok", "note"],
        wide=["rate"],
        name=name,
    )


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(show, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_tables_are_aligned_and_nothing_is_blank() -> None:
    assert shown().splitlines() == [
        "TOPIC  PARTITION  ISR  LAG  OK   NOTE",
        "t              0  1,2    -  yes  -",
        't              1  -      3  no   a "b", c',
    ]
    assert shown("-o", "wide").splitlines()[0].endswith("NOTE      RATE")
    assert shown("-o", "wide").splitlines()[1].endswith("     5"), "a number stands under the end of its title"
    assert shown("--empty") == "TOPIC  PARTITION  ISR  LAG  OK  NOTE\n"


def test_without_headers_columns_are_as_wide_as_what_is_in_them() -> None:
    assert shown("--no-headers").splitlines() == ["t  0  1,2  -  yes  -", 't  1  -    3  no   a "b", c']
    assert shown("--no-headers", "--empty") == ""
    assert shown("-o", "csv", "--no-headers").count("\n") == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Stdout and stderr of a person, from here to the end of the test."""
    opened = Terminal()
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}", opened)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return opened


CHECKED = [
    {"status": "ok", "check": "java", "count": 7},
    {"status": "problem", "check": "ok", "count": 12345},
]


def test_states_have_colours_on_a_terminal_and_numbers_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    write_rows(CHECKED, "table", columns=["status", "check", "count"], name="check")
    _, good, bad = terminal.getvalue().splitlines()
    assert good.startswith("\x1b[32mok ") and good.rstrip().endswith("java       7")
    assert bad.startswith("\x1b[1;31mproblem\x1b[0m  ok ") and bad.rstrip().endswith("12345"), "a name is no state"


def test_no_color_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    write_rows(CHECKED, "table", columns=["status", "check", "count"], name="check")
    assert not re.search(r"\x1b\[[\d;]*3\dm", terminal.getvalue()) and "problem" in terminal.getvalue()
    terminal.truncate(0)
    note("Error: no topic")
    assert terminal.getvalue().lstrip("\0") == "Error: no topic\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Error: no topic", "\x1b[31m\x1b[1mError:\x1b[0m no topic\n"),
        ("warning: it may go", "\x1b[33m\x1b[1mwarning:\x1b[0m it may go\n"),
        ("3 records", "3 records\n"),
    ],
)
def test_messages_show_how_bad_they_are_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, text: str, shown: str
) -> None:
    terminal = open_terminal(monkeypatch)
    note(text)
    assert terminal.getvalue() == shown
    piped = io.StringIO()
    monkeypatch.setattr("sys.stderr", piped)
    note(text)
    assert piped.getvalue() == f"{text}\n"


@pytest.mark.parametrize("output", ["json", "jsonl", "yaml"])
def test_programs_get_every_field(output: str) -> None:
    text = shown("-o", output)
    match output:
        case "json":
            assert json.loads(text) == ROWS and json.loads(shown("-o", output, "--empty")) == []
        case "jsonl":
            assert [json.loads(line) for line in text.splitlines()] == ROWS
        case _:
            assert yaml.safe_load(text) == ROWS and yaml.safe_load(shown("-o", output, "--empty")) == []


def test_csv_has_nothing_for_null_and_json_for_lists() -> None:
    first, second = csv.DictReader(io.StringIO(shown("-o", "csv")))
    assert (first["isr"], first["lag"], first["ok"], first["rate"]) == ("[1, 2]", "", "true", "5.0")
    assert second["note"] == 'a "b", c'


def test_names_are_for_pipes() -> None:
    assert shown("-o", "name") == "t-0\nt-1\n"
    assert shown("-o", "name", "--by-topic") == "t\n"
