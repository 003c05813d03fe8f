"""The command `kafkalite`: its commands by name, each loaded when it is called, so that `--help` and completion are quick.

Exit codes: see `kafkalite.cli.output.Exit`.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import click


class _Entry(NamedTuple):
    """Where a command lives, and what the list of commands says of it."""

    module: str
    attribute: str
    help: str


_COMMANDS = {
    "broker": _Entry("broker", "broker", "Run one broker in the foreground."),
    "cluster": _Entry("cluster", "cluster", "Run a cluster on this machine; look at one."),
    "consume": _Entry("consume", "consume", "Read records of a topic."),
    "demo": _Entry("demo", "demo", "Start a cluster and send the flights of 2013 through it."),
    "group": _Entry("group", "group", "Consumer groups: lag, members, offsets."),
    "leader": _Entry("leader", "leader", "Elect leaders of partitions."),
    "log": _Entry("log", "log", "Look into log directories, offline."),
    "partition": _Entry("partition", "partition", "Add partitions, move them to other brokers."),
    "produce": _Entry("produce", "produce", "Write records to a topic."),
    "topic": _Entry("topic", "topic", "Create, list, describe and delete topics."),
    "zk": _Entry("zk", "zk", "Run ZooKeeper servers; look into ZooKeeper."),
}


class _Commands(click.Group):
    """A group that imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _COMMANDS.get(cmd_name)
        if entry is None:
            return None
        found = getattr(import_module(f"kafkalite.cli.{entry.module}"), entry.attribute)
        if not isinstance(found, click.Command):
            raise TypeError(f"{entry.module}.{entry.attribute} is no command")
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in _COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="kafkalite")
def main() -> None:
    """A broker cluster that is coordinated by ZooKeeper and speaks Apache Kafka's protocol."""
