"""`kafkalite mirror`: its group, `status` and `switch`; `run` is in `running`, `back` in `returning`, `verify` in `comparison`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalite.cli.confirmation import confirm
from kafkalite.cli.mirror.back.returning import back
from kafkalite.cli.mirror.comparison.verifying import verify
from kafkalite.cli.mirror.running import run
from kafkalite.cli.output import Exit, fail, format_count, note, output_option, partition_name, write_rows

if TYPE_CHECKING:
    from kafkalite.cli.mirror.files import MirrorDirectory

_DIRECTORY: Final = click.Path(file_okay=False, exists=True, path_type=Path)
_COLUMNS: Final = ("topic", "partition", "source_end", "copied_to", "lag", "problem")
_STALE_MS: Final = 10_000
_POLL_S: Final = 0.2


@click.group()
def mirror() -> None:
    """Copy topics byte by byte into a cluster of Apache Kafka 4, and switch clients over.

    \b
    Copied:      batches as they are (offsets, timestamps, headers, compression, leader epochs, gaps, markers of transactions),
                 log start offsets, topics' settings, committed offsets of groups, ACLs, quotas
    Not copied:  SCRAM credentials and delegation tokens, brokers' dynamic settings, transactions that are open (the switch waits
                 for them), messages of formats before 0.11 (refused)
    """


mirror.add_command(run)
mirror.add_command(back)
mirror.add_command(verify)


@mirror.command(short_help="Show the progress, and what prevents a switch.")
@click.argument("directory", type=_DIRECTORY)
@output_option()
def status(directory: Path, output: str) -> None:
    """Show how far the mirror of DIRECTORY is, and what keeps a switch from happening.

    Exits with 7 when there is a problem, and with 5 when no mirror is at work.
    """
    found = _read_status(directory)
    write_rows(found["partitions"], output, columns=_COLUMNS, wide=("brokers",), name=partition_name)
    is_over = found["phase"] == "switched"
    lag = sum(each["lag"] or 0 for each in found["partitions"])
    what = f"{format_count(found['topics'], 'topic')}, {format_count(found['groups'], 'group')}, lag {lag}"
    note("switched: the target leads" if is_over else f"{found['phase']}: {what}")
    for each in found["notes"]:
        note(f"Note: {each}")
    for each in found["problems"]:
        note(f"Problem: {each}")
    for each in () if is_over else found["obstacles"]:
        note(f"Before a switch: {each}")
    _note_handed_over(found)
    if not is_over and not _is_at_work(directory, found):
        fail(f"no `kafkalite mirror run` is at work with {directory}", Exit.UNREACHABLE)
    if found["problems"] or found.get("handed_over"):
        raise SystemExit(int(Exit.CHECK_FAILED))


@mirror.command(short_help="Hand all partitions over to the target.")
@click.argument("directory", type=_DIRECTORY)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    help="Seconds to wait for the end of it.",
)
@click.option("--dry-run", is_flag=True, help="Only say what keeps it from happening.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def switch(directory: Path, wait_s: float, dry_run: bool, yes: bool) -> None:
    """Hand all partitions over to the target, which takes records from then on. Stop the producers of the source first.

    It happens when every follower has all records, no transaction is open, and nothing else is wrong; what stands against it is named, and
    the request withdrawn. The source stays as it is; `kafkalite mirror back` copies into it what the target gets from then on.
    Exits with 7 when it did not happen, or records came into the source after it.
    """
    from kafkalite.cli.mirror.files import MirrorDirectory

    found = _read_status(directory)
    files = MirrorDirectory(directory)
    if found["phase"] == "switched":
        _require_whole_switch(files)
        note("the target leads already")
        return
    if not _is_at_work(directory, found):
        fail(f"no `kafkalite mirror run` is at work with {directory}", Exit.UNREACHABLE)
    if dry_run:
        _note_handed_over(found)
        _fail_obstacles(found)
        note(f"nothing stands against it: {format_count(len(found['partitions']), 'partition')}")
        return
    confirm(f"Hand {format_count(len(found['partitions']), 'partition')} over to the target?", yes)
    files.request_switch()
    deadline_s = time.monotonic() + wait_s
    try:
        while found["phase"] != "switched" and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
            files.renew_switch()
            found = _read_status(directory)
    finally:
        if found["phase"] != "switched":
            files.withdraw_switch()
    if found["phase"] != "switched":
        _note_handed_over(found)
        if found["phase"] == "switching":
            fail("the switch has begun, and may still happen: see kafkalite mirror status", Exit.UNREACHABLE)
        _fail_obstacles(found)
        fail(f"not switched within {wait_s:g} s", Exit.UNREACHABLE)
    note("switched: the target leads")
    if found["problems"]:
        for each in found["problems"]:
            note(f"Problem: {each}")
        raise SystemExit(int(Exit.CHECK_FAILED))


def _note_handed_over(found: dict[str, Any]) -> None:
    """Name what a switch has left that was not finished."""
    if count := found.get("handed_over", 0):
        what = format_count(count, "partition")
        note(
            f"{what} handed over: keep the producers and consumers of the source stopped, and finish it by `kafkalite mirror switch`"
        )


def _require_whole_switch(files: MirrorDirectory) -> None:
    """End the command if a switch was interrupted after it was reported and before the directory remembered it."""
    from kafkalite.cli.mirror.files import MirrorFileError

    try:
        state = files.read_state()
    except MirrorFileError as problem:
        fail(str(problem))
    if state is not None and not state.is_switched:
        fail(
            "the switch was interrupted: call `kafkalite mirror run` and `kafkalite mirror switch` again",
            Exit.CHECK_FAILED,
        )


def _fail_obstacles(found: dict[str, Any]) -> None:
    """End the command when something stands against a switch."""
    for each in found["obstacles"]:
        note(f"Error: {each}")
    if found["obstacles"]:
        raise SystemExit(int(Exit.CHECK_FAILED))


def _read_status(directory: Path) -> dict[str, Any]:
    from kafkalite.cli.mirror.files import MirrorDirectory, MirrorFileError

    try:
        return MirrorDirectory(directory).read_status()
    except MirrorFileError as problem:
        fail(str(problem), Exit.NOT_FOUND)


def _is_at_work(directory: Path, found: dict[str, Any]) -> bool:
    from kafkalite.cli.mirror.files import MirrorDirectory

    is_young = time.time() * 1000 - found["time_ms"] < _STALE_MS
    return is_young or MirrorDirectory(directory).is_running()
