"""Files that people hand to commands and hold anything: a message says what is wrong with them, and nothing else comes out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from kafkalite.administration.record_lines import LineError, from_json_line
from kafkalite.cli.group.reset_target import read_offsets
from kafkalite.cli.partition.moves import read_moves
from kafkalite.cli.records.delete import _from_file
from kafkalite.config.keys import ConfigError
from kafkalite.config.properties import read_properties
from kafkalite.legacy.cluster.client_settings import read_properties_file
from kafkalite.legacy.command_line.failures import CommandFailed, ToolError
from kafkalite.legacy.delete_records import read_offsets as java_offsets
from kafkalite.legacy.java.json_documents import read_text
from kafkalite.legacy.leader_election import read_partitions
from kafkalite.legacy.reassign_partitions.plans import read_plan, read_topics
from tests.case import case

CONTENTS = (
    b"",
    b"\xff\xfe\0\x80",
    b"[",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"null",
    b"5",
    b"[]",
    b"{}",
    b'"' + b"x" * 200_000 + b'"',
    b'{"version":"x","partitions":5}',
    b'{"version":1,"partitions":[5]}',
    b'{"version":1,"partitions":[{"topic":5,"partition":"x","replicas":"y","offset":[]}]}',
    b'{"version":1,"partitions":[{"topic":"t","partition":NaN,"replicas":[NaN],"offset":1e400}]}',
    b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1e400],"offset":0,"log_dirs":5}]}',
    b'{"version":1,"partitions":[{"topic":"t","partition":' + b"9" * 5_000 + b"}]}",
    b'{"version":1,"topics":[{"topic":5},7]}',
    b"a=\\uZZZZ\n",
    b"t,x,5\n",
    b"t,0,5\nt,0,5\n",
    b"x" * 3_000_000,
)


def _java(read: Callable[[str], Any]) -> Callable[[Path], Any]:
    return lambda file: read(read_text(str(file)))


READERS: dict[str, tuple[Callable[[Path], Any], tuple[type[Exception], ...]]] = {
    "offsets of a group": (read_offsets, (click.BadParameter,)),
    "moves": (read_moves, (click.BadParameter,)),
    "offsets to delete": (_from_file, (click.BadParameter,)),
    "a record": (lambda file: from_json_line(file.read_bytes(), True), (LineError,)),
    "settings": (read_properties, (ConfigError,)),
    "settings of Kafka's": (lambda file: read_properties_file(str(file)), (ToolError,)),
    "Kafka's plan": (_java(read_plan), (ToolError, CommandFailed)),
    "Kafka's topics": (_java(read_topics), (ToolError, CommandFailed)),
    "Kafka's offsets": (_java(java_offsets), (ToolError, CommandFailed)),
    "Kafka's partitions": (_java(read_partitions), (ToolError, CommandFailed)),
}


@pytest.mark.parametrize("name", READERS)
def test_what_cannot_be_read_is_told(name: str, tmp_path: Path) -> None:
    read, told = READERS[name]
    file, refused = tmp_path / "file", 0
    for content in CONTENTS:
        file.write_bytes(content)
        with case(content[:60]):
            try:
                read(file)
            except told as problem:
                refused += 1
                assert str(problem)
    assert refused > 5 or "settings" in name


@pytest.mark.parametrize("name", [each for each in READERS if each.startswith("Kafka's")])
def test_a_directory_and_no_file_are_told_as_javas_tools_tell_them(name: str, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ToolError, match="Unable to read file"):
            READERS[name][0](path)
