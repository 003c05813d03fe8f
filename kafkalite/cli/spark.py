"""`kafkalite spark run|backfill|archive|…`: the nightly batch jobs on Spark.

The command becomes `python -m spark_jobs`, which has the options (`--help` shows them), the output and the exit codes. The packages stay
apart: nothing here imports `spark_jobs`, which needs the extra `spark`.
"""

from __future__ import annotations

import importlib.util
import os
import sys

import click

from kafkalite.cli.output import Exit, fail, flush

_COMMANDS = {
    "run": ("nightly", "Archive a day; reprocess and compact it where asked for; audit it."),
    "backfill": ("backfill", "The same for many days; goes on where it was interrupted."),
    "archive": ("archive", "A day's records to Parquet, by topic and date."),
    "reprocess": ("reprocess", "A transform on a day's records; its result to Parquet or a topic."),
    "compact": ("compact", "A snapshot: each key's latest value as of the end of a day."),
    "audit": ("audit", "Compare log and archive; exit code 7 when they differ."),
    "verify": ("verify", "Prove the archive by the ledger's digests, and by the log; exit code 7 if wrong."),
    "maintain": ("maintain", "Compact and expire Delta Lake and Iceberg tables."),
    "status": ("status", "What is done, planned, or missing."),
    "schedule": ("schedule", "What starts a night every night: systemd, cron or Airflow."),
    "report": ("report", "The page of a night, made again from the ledger."),
}


@click.group()
def spark() -> None:
    """Nightly batch jobs on Spark: archive, reprocess, compact, audit. Each command has --help."""


def _add(name: str, job: str, text: str) -> None:
    @spark.command(
        name,
        help=text,
        short_help=text,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> None:
        _become(name, job, arguments)


def _become(name: str, job: str, arguments: tuple[str, ...]) -> None:
    """Replace this process by `python -m spark_jobs`, whose signals and exit code are its own. It gets the name of the command for its
    --help.
    """
    if importlib.util.find_spec("pyspark") is None:
        fail("the jobs need Spark: pip install 'kafkalite[spark]' (and Java 17)", Exit.USAGE)
    flush()
    os.environ["_KAFKALITE_SPARK_CALLED_AS"] = name
    os.execv(sys.executable, [sys.executable, "-m", "spark_jobs", job, *arguments])


for _name, (_job, _text) in _COMMANDS.items():
    _add(_name, _job, _text)
