"""Shapes of output: what people and programs get of the same rows."""

from __future__ import annotations

import csv
import io
import json

import click
import pytest
import yaml  # of the test extra's packages: what other programs make of our YAML
from click.testing import CliRunner

from kafkalite.cli.output import output_option, partition_name, write_rows

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
        "t      0          1,2  -    yes  -",
        't      1          -    3    no   a "b", c',
    ]
    assert shown("-o", "wide").splitlines()[0].endswith("NOTE      RATE")
    assert shown("--empty") == "TOPIC  PARTITION  ISR  LAG  OK  NOTE\n"


def test_without_headers_columns_are_as_wide_as_what_is_in_them() -> None:
    assert shown("--no-headers").splitlines() == ["t  0  1,2  -  yes  -", 't  1  -    3  no   a "b", c']
    assert shown("--no-headers", "--empty") == ""
    assert shown("-o", "csv", "--no-headers").count("\n") == 2


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
