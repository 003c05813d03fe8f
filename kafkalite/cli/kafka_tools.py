"""`kafkalite kafka-tools`: put Apache Kafka's command-line tools, by their own names, into a folder of the user's choice."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from kafkalite.cli.output import fail, note
from kafkalite.tool_names import MARK, TOOLS, tool_scripts


@click.command("kafka-tools")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only print the paths.")
def kafka_tools(folder: Path, dry_run: bool) -> None:
    """Write Apache Kafka's command-line tools into FOLDER: kafka-topics, kafka-topics.sh and the others.

    They have the options, output and exit codes of Apache Kafka 3.9, and need no Java. Nothing of another origin is replaced.
    """
    scripts = {folder / name: text for name, text in tool_scripts(sys.executable).items()}
    foreign = [path for path in scripts if path.is_symlink() or (path.exists() and not _is_ours(path))]
    if foreign:
        fail(f"{foreign[0]} was not written by kafka-tools, and is not replaced; name another folder")
    if dry_run:
        for path in scripts:
            click.echo(path)
        return
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in scripts.items():
        path.write_text(text)
        path.chmod(0o755)
    note(f"{len(TOOLS)} tools are in {folder}, each also with .sh; for this shell:")
    click.echo(f'export PATH={shlex.quote(str(folder.absolute()))}:"$PATH"')


def _is_ours(path: Path) -> bool:
    """True if an earlier call has written the file."""
    with path.open("rb") as file:
        return MARK.encode() in file.read(len(MARK) + len("#!/bin/sh\n"))
