"""Every command, with what its `--help` says: it is the same text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click

from deploy.docs.docstrings import cell
from deploy.docs.reference import Reference, with_anchors
from kafkalite import legacy
from kafkalite.cli.main import main
from kafkalite.cli.output import Exit

_WIDTH = 88
"""Columns that the site shows without scrolling on a desk."""


def _root() -> click.Context:
    context = click.Context(main, info_name="kafkalite", max_content_width=_WIDTH, terminal_width=_WIDTH)
    context.help_option_names = ["-h", "--help"]
    return context


def _help(command: click.Command, context: click.Context) -> str:
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())


def _below(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield found, click.Context(found, info_name=name, parent=context)


def _commands(command: click.Command, context: click.Context, depth: int) -> Iterator[str]:
    """Yield a chapter for the command and each one below it."""
    yield f"{'#' * min(depth, 4)} {context.command_path}\n\n```text\n{_help(command, context)}\n```\n"
    for found, place in _below(command, context):
        yield from _commands(found, place, depth + 1)


def _paths(command: click.Command, context: click.Context) -> Iterator[str]:
    yield context.command_path
    for found, place in _below(command, context):
        yield from _paths(found, place)


def _overview() -> str:
    """`kafkalite` with a line for each command of the first level, which also names those below it."""
    context = _root()
    rows = []
    for command, place in _below(main, context):
        name = str(place.info_name)
        link = with_anchors(f"[{place.command_path}](commands/{name}.md)", _paths(command, place))
        below = ", ".join(f"`{deeper.info_name}`" for _, deeper in _below(command, place))
        rows.append(f"| {link} | {cell(command.get_short_help_str(limit=200))} | {below} |")
    commands = "\n".join(rows)
    codes = "\n".join(f"| {code.value} | {code.name.lower().replace('_', ' ')} |" for code in Exit)
    return f"""# Commands

A page for each command of `kafkalite`, with what `--help` says of it.

| Command | What it does | Commands below it |
|---|---|---|
{commands}

## Exit codes

| Code | Meaning |
|---|---|
{codes}

## kafkalite

```text
{_help(main, context)}
```
"""


def our_commands() -> Reference:
    """`kafkalite` with all of its commands."""

    def text(name: str) -> str:
        command, place = next(each for each in _below(main, _root()) if each[1].info_name == name)
        return "\n".join(_commands(command, place, 1))

    return Reference(_overview, {name: partial(text, name) for name in main.list_commands(_root())})


def kafka_tools() -> Reference:
    """Apache Kafka's tools by their own names."""
    tools = {path.stem: path for path in sorted((Path(legacy.__file__).parent / "help").glob("*.txt"))}

    def text(name: str) -> str:
        told = f"What `{name} --help` says; the tool is there as `{name}.sh`, too."
        return f"# {name}\n\n{told}\n\n```text\n{tools[name].read_text().rstrip()}\n```\n"

    def overview() -> str:
        rows = "\n".join(f"- {with_anchors(f'[{name}](kafka-tools/{name}.md)', [name])}" for name in tools)
        return f"""# Apache Kafka's tools

`kafkalite kafka-tools FOLDER` puts them into a folder under their own names, each also with `.sh`: flags, output, messages and exit
codes are those of Apache Kafka 3.9. They need no Java.

{rows}
"""

    return Reference(overview, {name: partial(text, name) for name in tools})
