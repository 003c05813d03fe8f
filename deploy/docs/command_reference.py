"""Every command, with what its `--help` says: it is the same text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from kafkalite import legacy
from kafkalite.cli.main import main
from kafkalite.cli.output import Exit

_WIDTH = 110


def _help(command: click.Command, context: click.Context) -> str:
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())


def _commands(command: click.Command, context: click.Context, depth: int) -> Iterator[str]:
    yield f"{'#' * min(depth, 4)} {context.command_path}\n\n```text\n{_help(command, context)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _commands(below, click.Context(below, info_name=name, parent=context), depth + 1)


def our_commands() -> str:
    """`kafkalite` with all of its commands."""
    context = click.Context(main, info_name="kafkalite", max_content_width=_WIDTH, terminal_width=_WIDTH)
    context.help_option_names = ["-h", "--help"]
    parts = "\n".join(_commands(main, context, 2))
    codes = "\n".join(f"| {code.value} | {code.name.lower().replace('_', ' ')} |" for code in Exit)
    return (
        "# Commands\n\nEvery command of `kafkalite`, with what `--help` says of it.\n\n"
        f"## Exit codes\n\n| Code | Meaning |\n|---|---|\n{codes}\n\n{parts}"
    )


def kafka_tools() -> str:
    """Apache Kafka's tools by their own names."""
    parts = []
    for path in sorted((Path(legacy.__file__).parent / "help").glob("*.txt")):
        parts.append(f"## {path.stem}\n\n```text\n{path.read_text().rstrip()}\n```\n")
    return (
        "# Apache Kafka's tools\n\n"
        "`kafkalite kafka-tools FOLDER` puts them into a folder under their own names, each also with `.sh`: flags, output, messages and "
        "exit codes are those of Apache Kafka 3.9. They need no Java.\n\n" + "\n".join(parts)
    )
