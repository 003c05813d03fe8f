"""`kafkalite record`: records in bulk, where they lie."""

from __future__ import annotations

import click

from kafkalite.cli.records.delete import delete
from kafkalite.cli.records.digest import digest


@click.group()
def record() -> None:
    """Delete records; compare what two places have of them."""


record.add_command(delete)
record.add_command(digest)
