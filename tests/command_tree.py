"""The tree of commands below `kafkalite`, for tests that hold all of them to something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from kafkalite.cli.main import main


def command_name(words: Sequence[str]) -> str:
    """ "topic list", of the words of a command line."""
    found, names = main, []
    for word in words:
        if not isinstance(found, click.Group):
            break
        below = found.get_command(click.Context(found), word)
        if below is None:
            break
        names.append(word)
        found = below  # type: ignore[assignment]
    return " ".join(names)


def all_commands(group: click.Group = main, above: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, by name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from all_commands(found, (*above, name))
        else:
            yield " ".join((*above, name)), found
