"""The command `kafkalite`: its commands by name, each imported when it is called, so that `--help` and completion are quick.

`kafkalite.cli.output.Exit` has the exit codes.
"""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kafkalite import NAME, __version__
from kafkalite.standard_streams import standard_streams

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class _Entry(NamedTuple):
    """The module of a command, and its line in the list of commands."""

    module: str
    attribute: str
    help: str


_COMMANDS = {
    "acl": _Entry("acl", "acl", "Access control lists: who may do what."),
    "broker": _Entry("broker", "broker", "Run one broker in the foreground."),
    "cluster": _Entry("cluster.command", "cluster", "Run a cluster on this machine; inspect any cluster."),
    "completion": _Entry("completion.command", "completion", "Print the completion script of a shell."),
    "config": _Entry("config.command", "config", "Settings of topics and brokers; quotas."),
    "console": _Entry("console.command", "console", "Show clusters in a browser."),
    "consume": _Entry("records.consume", "consume", "Read records of a topic."),
    "context": _Entry("context.command", "context", "Named clusters, and the settings that commands use for them."),
    "doctor": _Entry("doctor.command", "doctor", "Diagnose machine and cluster, and say what to do."),
    "group": _Entry("group.command", "group", "Consumer groups: lag, members, offsets."),
    "kafka-tools": _Entry("kafka_tools", "kafka_tools", "Put Apache Kafka's tools, by their own names, into a folder."),
    "leader": _Entry("leader", "leader", "Elect leaders of partitions."),
    "log": _Entry("log", "log", "Inspect the files of log directories, offline."),
    "logdir": _Entry("logdir", "logdir", "Show brokers' log directories; move replicas between them."),
    "migrate": _Entry(
        "migrate.command", "migrate", "Replace brokers of Apache Kafka by kafkalite's, or the other way."
    ),
    "mirror": _Entry("mirror.command", "mirror", "Copy a cluster into one of Apache Kafka 4, and switch over."),
    "offset": _Entry("offset", "offset", "Show the offsets of partitions."),
    "partition": _Entry("partition.command", "partition", "Add partitions; move them to other brokers."),
    "perf": _Entry("perf", "perf", "Measure producers, consumers, and both together."),
    "produce": _Entry("records.produce", "produce", "Write records to a topic."),
    "record": _Entry("records.command", "record", "Delete records before an offset; digests of records."),
    "spark": _Entry("spark", "spark", "Nightly batch jobs on Spark: archive, reprocess, compact, audit."),
    "topic": _Entry("topic", "topic", "Create, list, describe and delete topics."),
    "transaction": _Entry("transaction", "transaction", "Show transactions; find and abort hanging ones."),
    "zk": _Entry("zookeeper.command", "zk", "Run ZooKeeper servers; inspect znodes."),
}


@contextmanager
def _explained_mistakes() -> Iterator[None]:
    """Say what was meant by a command or an option that does not exist."""
    try:
        yield
    except (click.NoSuchOption, click.NoSuchCommand) as problem:
        from kafkalite.cli.kafka_words.remedies import explain  # with the first mistake

        raise explain(problem) from None


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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as problem:  # of which click, which knows no command yet, cannot tell the nearest
            raise click.NoSuchCommand(problem.command_name, possibilities=_COMMANDS, ctx=ctx) from None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _explained_mistakes():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _explained_mistakes():
            return super().invoke(ctx)

    def main(self, *args: Any, **extra: Any) -> Any:
        if "_KAFKALITE_COMPLETE" in os.environ:
            import_module("kafkalite.cli.completion.shells")  # a shell asks: it is answered in our way
        atexit.register(gc.freeze)  # at its end Python searches all that was imported for cycles: 10 ms
        with standard_streams():
            try:
                return super().main(*args, **extra)
            except OSError as problem:
                if problem.filename is None:
                    raise
                click.echo(f"Error: cannot use {problem.filename}: {problem.strerror}", err=True)
                raise SystemExit(1) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the commands, without importing them, and the options."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=entry.help) for name, entry in _COMMANDS.items()]
        return [each for each in found if each.value.startswith(incomplete)] + click.Command.shell_complete(
            self, ctx, incomplete
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in _COMMANDS.items()])


_EXIT_CODES = """\b
Exit codes:
  0  done                        4  it exists already
  1  failed, or not all done     5  unreachable, or the time was up
  2  wrong usage                 6  not authorized
  3  there is no such thing      7  a check found something
"""


def _show_version(ctx: click.Context, parameter: click.Parameter, is_asked: bool) -> None:
    if not is_asked or ctx.resilient_parsing:
        return
    from kafkalite.protocol.record_batches.record_code import IS_COMPILED

    code = "compiled code" if IS_COMPILED else "Python, which is slower (see kafkalite doctor)"
    click.echo(f"{NAME}, version {__version__}\nrecords by {code}")
    ctx.exit()


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=_EXIT_CODES,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def main() -> None:
    """A broker cluster that is coordinated by ZooKeeper and speaks Apache Kafka's protocol."""
