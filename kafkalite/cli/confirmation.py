"""Confirmation before an action that cannot be undone."""

from __future__ import annotations

import sys

import click

from kafkalite.cli.output import Exit, fail


def confirm(question: str, yes: bool) -> None:
    """End the command without consent: `yes` (the option `--yes`), or an answer at a terminal. A script must give `--yes`."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail("this asks before it is done; give --yes to do it without being asked", Exit.USAGE)
    click.confirm(question, abort=True, err=True)
