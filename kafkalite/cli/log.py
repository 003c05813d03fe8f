"""`kafkalite log dump|verify|compare`: read log directories, offline.

`dump` prints segments, indexes, snapshots and checkpoints; `verify` names the first damaged byte of each file; `compare` tells if
brokers' log directories hold the same batches.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kafkalite.cli.output import Exit, fail, flush, note, output_option, write_line, write_rows

if TYPE_CHECKING:
    from kafkalite.storage.inspection import Damage, Row

_TABLE_ROWS = 10_000
"""Rows of a table that are written at once, with titles, so that a dump of any size needs little memory."""

_BATCH_COLUMNS = (
    *("position", "size", "base_offset", "last_offset", "count", "leader_epoch", "codec", "max_timestamp"),
    *("producer_id", "producer_epoch", "base_sequence", "transactional", "control", "crc_valid"),
)


@click.group()
def log() -> None:
    """Inspect the files of log directories, offline."""


def _files_argument(function: Any) -> Any:
    return click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))(function)


@log.command(short_help="Print batches, records, indexes, epochs and producers.")
@_files_argument
@click.option("--records", is_flag=True, help="Also the records of batches.")
@output_option("table", ("table", "jsonl"))
def dump(files: tuple[Path, ...], records: bool, output: str) -> None:
    """Print what FILES hold: batches, records, index entries, leader epochs, producers. Directories stand for all files below them.
    Records of __transaction_state are decoded.

    What is broken is named on stderr, and the exit code is 7 then.
    """
    from kafkalite.storage.inspection import Depth, examine

    depth = Depth.RECORDS if records else Depth.HEADERS
    damages: list[Damage] = []
    for path in _expand_files(files):
        try:
            _write(path, _sound(examine(path, depth), damages), output)
        except (OSError, ValueError) as problem:
            _refuse(problem)
    flush()
    if damages:
        raise SystemExit(int(Exit.CHECK_FAILED))


def _sound(found: Iterable[Row | Damage], damages: list[Damage]) -> Iterator[Row]:
    """Yield the undamaged rows; damage is printed in its place and collected."""
    from kafkalite.storage.inspection import Row

    for each in found:
        if isinstance(each, Row):
            yield each
        else:
            damages.append(each)
            note(f"damaged: {each}")


def _write(path: Path, rows: Iterable[Row], output: str) -> None:
    if output == "jsonl":
        for row in rows:
            write_line(json.dumps({"file": str(path), "kind": row.kind, **_plain(path, row.fields)}))
        return
    write_line(f"# {path}")
    for kind, run in groupby(rows, key=lambda row: row.kind):
        while portion := [_plain(path, row.fields) for row in islice(run, _TABLE_ROWS)]:
            columns = _BATCH_COLUMNS if kind == "batch" else tuple(portion[0])
            write_rows([_format_value(row) for row in portion], "table", columns=columns, name="position")


def _plain(path: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """Return bytes as in the lines of `consume -o jsonl`, and records of transaction coordinators decoded."""
    from kafkalite.administration.record_lines import encode_bytes
    from kafkalite.cli.transaction_records import decode_record
    from kafkalite.types import TRANSACTIONS_TOPIC

    if "headers" not in fields:
        return fields
    headers = [[header.key, encode_bytes(header.value)] for header in fields["headers"]]
    of_transactions = path.parent.name.rpartition("-")[0] == TRANSACTIONS_TOPIC
    known = decode_record(fields["key"], fields["value"]) if of_transactions else None
    key, value = known if known is not None else (encode_bytes(fields["key"]), encode_bytes(fields["value"]))
    return {**fields, "key": key, "value": value, "headers": headers}


def _format_value(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a value for a table: structures as JSON, and nothing that would break a line."""
    if "headers" not in fields:
        return fields
    texts = {name: None if fields[name] is None else json.dumps(fields[name]) for name in ("key", "value")}
    return {**fields, **texts, "headers": json.dumps(fields["headers"]) if fields["headers"] else None}


@log.command(short_help="Check files, with every record of every batch.")
@_files_argument
@click.option("-q", "--quiet", is_flag=True, help="Print only what is broken.")
@output_option("table", ("table", "jsonl"))
def verify(files: tuple[Path, ...], quiet: bool, output: str) -> None:
    """Check FILES, every record of every batch included; for each broken one print file, byte and reason.

    Directories stand for all files below them. The exit code is 7 when something is broken.
    """
    from kafkalite.storage.inspection import first_damage

    broken = 0
    for path in _expand_files(files):
        try:
            damage = first_damage(path)
        except (OSError, ValueError) as problem:
            _refuse(problem)
        broken += damage is not None
        if damage is not None or not quiet:
            _write_verdict(path, damage, output)
    flush()
    if broken:
        raise SystemExit(int(Exit.CHECK_FAILED))


def _write_verdict(path: Path, damage: Damage | None, output: str) -> None:
    if output == "jsonl":
        found = {"position": damage.position, "reason": damage.reason} if damage is not None else {}
        write_line(json.dumps({"file": str(path), "sound": damage is None, **found}))
    else:
        write_line(f"{path}: sound" if damage is None else str(damage))


@log.command(short_help="Compare the replicas of brokers byte for byte.")
@click.argument("directories", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "-p", "--partition", "partitions", multiple=True, metavar="TOPIC-N", help="Only this one; may be repeated."
)
@output_option("table", ("table", "json"))
def compare(directories: tuple[Path, ...], partitions: tuple[str, ...], output: str) -> None:
    """Compare the replicas in the brokers' log DIRECTORIES batch by batch, byte for byte; the exit code is 7 when they differ.

    Brokers are recognised by their meta.properties. Compare while nothing is written.
    """
    from kafkalite.storage.log_files import partition_of
    from kafkalite.testing.history.replicas import compare_replicas

    wanted = [partition_of(name) for name in partitions]
    for name, found in zip(partitions, wanted, strict=True):
        if found is None:
            raise click.BadParameter(f"{name!r} is not like topic-0", param_hint="--partition")
    try:
        result = compare_replicas(_by_broker(directories), [each for each in wanted if each is not None] or None)
    except OSError as problem:
        _refuse(problem)
    if output == "json":
        differences = {str(name): texts for name, texts in result.differences.items()}
        counts = {"replicas": result.replicas, "batches": result.batches, "size_bytes": result.size_bytes}
        write_line(json.dumps({"equal": result.equal, **counts, "differences": differences}, indent=2))
    else:
        write_line(str(result))
    flush()
    if not result.equal:
        raise SystemExit(int(Exit.CHECK_FAILED))


def _by_broker(directories: tuple[Path, ...]) -> dict[int, list[Path]]:
    """Return the directories of each broker; one without meta.properties counts as a broker of its own, -1 and so on."""
    from kafkalite.storage.disk import OsDisk
    from kafkalite.storage.meta_properties import FILE_NAME, WrongDirectory, read_meta_properties

    found: dict[int, list[Path]] = {}
    for number, directory in enumerate(directories, 1):
        try:
            owner = read_meta_properties(OsDisk(), str(directory / FILE_NAME))
        except WrongDirectory as problem:
            _refuse(problem)
        broker_id = owner.broker_id if owner is not None and owner.broker_id is not None else -number
        found.setdefault(broker_id, []).append(directory)
    return found


def _expand_files(files: tuple[Path, ...]) -> Iterator[Path]:
    from kafkalite.storage.inspection import files_below

    for path in files:
        try:
            yield from files_below(path)
        except OSError as problem:
            _refuse(problem)


def _refuse(problem: Exception) -> NoReturn:
    fail(str(problem), Exit.NOT_FOUND if isinstance(problem, FileNotFoundError) else Exit.FAILED)
