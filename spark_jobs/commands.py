"""The commands of `python -m spark_jobs`, and how they end (exit codes: `batch.failures.Exit`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from spark_jobs import command_options as given
from spark_jobs.batch.failures import BadRequestError, Exit
from spark_jobs.batch.window import dates_between
from spark_jobs.observation import schedule_options
from spark_jobs.observation.telling_options import TELLING
from spark_jobs.observation.watch import watch_run
from spark_jobs.opened_output import (
    exclusive_uri,
    lock_server,
    note,
    open_archive,
    open_ledger,
    open_night,
    open_output_session,
    open_storage,
)
from spark_jobs.report import write_rows

if TYPE_CHECKING:
    from spark_jobs.batch.ledger import Entry

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_RESULT_COLUMNS = ("job", "topic", "date", "state", "records", "late", "dead_letters", "files", "bytes")
_MAINTAIN_COLUMNS = (
    "table",
    "files",
    "bytes",
    "compacted",
    "written",
    "expired_snapshots",
    "expired_files",
    "dry_run",
)
_NOTHING_TO_MAINTAIN = (
    "the output has Parquet files, which runs replace: there are no small files and old states to maintain"
)
_AUDIT_COLUMNS = (
    "topic",
    "date",
    "partition",
    "hour",
    "records",
    "archived",
    "gaps",
    "duplicates",
    "fingerprint",
    "differs",
)
_VERIFY_COLUMNS = ("topic", "date", "records", "in_log", "place", "problem")


class _Jobs(click.Group):
    """The group; its context's `obj` is the name by which `kafkalite spark` was called, "run" for `nightly`, for usage and errors."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, left = super().resolve_command(ctx, args)
        if ctx.obj is not None and name is not None and command is not None:
            # Variables of the environment have the job's own name, whatever it was called by.
            prefix = f"{ctx.auto_envvar_prefix}_{name.upper()}"
            command.context_settings = {**command.context_settings, "auto_envvar_prefix": prefix}
            name = ctx.obj
        return name, command, left


@click.group(cls=_Jobs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def main() -> None:
    """Batch jobs on topics, for every night: archive, reprocess, compact, audit, maintain.

    Options can be given by environment variables: KAFKALITE_SPARK_NIGHTLY_OUTPUT is `nightly --output`.

    Exit codes: 0 done, 1 failed, 2 wrong usage (also: a last date before the first), 3 unknown topic or schema, 4 another run is active,
    5 brokers, ZooKeeper or the schema registry out of reach, 6 not authorized, 7 log and archive differ, 8 offsets gone by retention,
    9 output not writable, 10 done, but with more undecodable records than allowed, 130 interrupted.
    """


def _command(function: Decorated) -> Decorated:
    """Turn errors into a line on stderr and an exit code."""

    @wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except KeyboardInterrupt:
            raise SystemExit(int(Exit.INTERRUPTED)) from None
        except Exception as problem:
            from spark_jobs.batch.endings import ending

            code, text = ending(problem)
            if code is None:
                raise
            _fail(text, code)

    return run  # type: ignore[return-value]


@main.command()
@given.DATE
@given.options(given.PLACES, given.LOCK, given.SPARK, given.FORMATS_OF_RECORDS, given.TRANSFORM, given.REFRESH)
@given.LEDGER_KEY
@click.option(
    "--compact", "compaction", is_flag=True, help="Also make the snapshot: each key's latest value as of the date."
)
@given.COMPACTION
@given.AUDIT
@given.OUTPUT
@TELLING
@_command
@watch_run("nightly")
def nightly(day: str, report: str, **options: Any) -> None:
    """Archive a day; reprocess and compact it where asked for; audit it."""
    from spark_jobs.jobs import nightly as job

    when = given.day(day, options["time_zone"])
    program = given.program(options)
    with open_night(options, f"nightly {when}") as night:
        _write_entries(job.main(night, program, options["topics"], when), report)


@main.command()
@click.option("--from", "first", required=True, metavar="YYYY-MM-DD", help="The first day.")
@click.option("--to", "last", required=True, metavar="YYYY-MM-DD", help="The last day, included.")
@click.option(
    "--days-per-job", type=click.IntRange(1), default=31, show_default=True, help="Days that Spark reads in one go."
)
@click.option("--again", is_flag=True, help="Also days that are done.")
@given.options(given.PLACES, given.LOCK, given.SPARK, given.FORMATS_OF_RECORDS, given.TRANSFORM, given.REFRESH)
@given.LEDGER_KEY
@click.option("--compact", "compaction", is_flag=True, help="Also make the snapshot as of the last day.")
@given.COMPACTION
@given.AUDIT
@given.OUTPUT
@TELLING
@_command
@watch_run("backfill")
def backfill(first: str, last: str, days_per_job: int, again: bool, report: str, **options: Any) -> None:
    """The same for many days. Goes on where it was interrupted."""
    from spark_jobs.jobs import backfill as job

    zone = options["time_zone"]
    days = dates_between(given.day(first, zone), given.day(last, zone))
    program = given.program(options)
    with open_night(options, f"backfill {days[0]} to {days[-1]}") as night:
        _write_entries(job.main(night, program, options["topics"], days, days_per_job, again), report)


@main.command()
@given.DATE
@given.options(given.PLACES, given.LOCK, given.SPARK, given.FORMATS_OF_RECORDS, given.REFRESH)
@given.LEDGER_KEY
@given.OUTPUT
@TELLING
@_command
@watch_run("archive")
def archive(day: str, report: str, **options: Any) -> None:
    """A day's records to Parquet, by topic and date."""
    from spark_jobs.jobs import archive as job

    _run_by_topic("archive", day, report, options, job.main)


@main.command()
@given.DATE
@given.options(
    given.PLACES, given.LOCK, given.SPARK, given.FORMATS_OF_RECORDS, given.TRANSFORM, given.REFRESH, given.OUTPUT
)
@TELLING
@_command
@watch_run("reprocess")
def reprocess(day: str, report: str, **options: Any) -> None:
    """A transform on a day's records; its result to Parquet, to a topic, or to both."""
    from spark_jobs.jobs import reprocess as job

    wanted = given.reprocessing(options)
    if wanted is None:
        raise BadRequestError("reprocess needs --transform module:function")
    _run_by_topic("reprocess", day, report, options, partial(job.main, wanted=wanted))


@main.command()
@given.DATE
@given.options(
    given.PLACES, given.LOCK, given.SPARK, given.FORMATS_OF_RECORDS, given.COMPACTION, given.REFRESH, given.OUTPUT
)
@TELLING
@_command
@watch_run("compact")
def compact(day: str, report: str, **options: Any) -> None:
    """A snapshot: each key's latest value as of the end of a day."""
    from spark_jobs.jobs import compact as job

    _run_by_topic("compact", day, report, options, partial(job.main, wanted=given.compaction(options)))


def _run_by_topic(job: str, day: str, report: str, options: Mapping[str, Any], main: Callable[..., Entry]) -> None:
    """Run a job's `main` for a date of each topic, and print the entries."""
    from spark_jobs.jobs.nightly import check_dead_letters

    when, formats = given.day(day, options["time_zone"]), given.formats(options)
    with open_night(options, f"{job} {when}") as night:
        _write_entries([main(night, topic, when, formats) for topic in options["topics"]], report)
        check_dead_letters(night, options["dead_letters_allowed"])


@main.command()
@given.DATE
@click.option("--to", "last", metavar="YYYY-MM-DD", help="The last of several days, of which --date is the first.")
@given.options(given.PLACES, given.LOCK, given.SPARK, given.OUTPUT)
@TELLING
@_command
@watch_run("audit")
def audit(day: str, last: str | None, report: str, **options: Any) -> None:
    """Compare log and archive, by partition and hour; exit code 7 when they differ."""
    from spark_jobs.jobs import audit as job

    zone = options["time_zone"]
    first = given.day(day, zone)
    days = dates_between(first, first if last is None else given.day(last, zone))
    with open_night(options, f"audit {first}") as night:
        found = job.reports(night, options["topics"], days)
        write_rows([row for each in found for row in each.rows()], report, _AUDIT_COLUMNS)
        job.judge(night, found)


@main.command()
@given.DATE
@click.option("--to", "last", metavar="YYYY-MM-DD", help="The last of several days, of which --date is the first.")
@given.options(given.PLACES, given.SESSION)
@click.option("--time-zone", default="UTC", show_default=True, help="Where `yesterday` and `today` are.")
@click.option(
    "--ledger-key",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The Ed25519 key of the nights, or its public part, in PEM: entries count only if they are signed by it.",
)
@click.option(
    "--log/--no-log", "with_log", default=True, show_default=True, help="Ask the brokers too, or the ledger alone."
)
@given.OUTPUT
@_command
def verify(
    day: str, last: str | None, time_zone: str, ledger_key: Path | None, with_log: bool, report: str, **options: Any
) -> None:
    """Prove the archive by the digests in the ledger, and by the log where it has the records still; exit code 7 when something is wrong.

    Needs no Spark for a local folder of Parquet files. Of tables, the rows count that their readers see.
    """
    from contextlib import nullcontext

    from spark_jobs.batch.cluster_log import ClusterLog
    from spark_jobs.batch.signatures import load_checker
    from spark_jobs.jobs import verify as job

    first = given.day(day, time_zone)
    days = dates_between(first, first if last is None else given.day(last, time_zone))
    check = None if ledger_key is None else load_checker(ledger_key)
    settings = {"bootstrap.servers": options["bootstrap_server"], **given.pairs(options["kafka_settings"], "-X")}
    with open_archive(options) as (storage, archive), ClusterLog(settings) if with_log else nullcontext() as log:
        found = job.main(storage, log, options["topics"], days, check, archive)
    write_rows([row for each in found for row in each.rows()], report, _VERIFY_COLUMNS)
    job.judge(found)


@main.command()
@given.options(given.MAINTAINED, given.LOCK, given.SESSION, given.OUTPUT)
@_command
def maintain(retain_days: int, target_file_bytes: int, report: str, **options: Any) -> None:
    """Compact small files of Delta Lake and Iceberg tables, and remove what only old states of them need."""
    from spark_jobs.batch import layout
    from spark_jobs.batch.night import now_ms
    from spark_jobs.batch.run_lock import run_lock
    from spark_jobs.batch.storage import local_folder
    from spark_jobs.jobs import maintain as job
    from spark_jobs.tables.output_tables import open_tables
    from spark_jobs.tables.packages import PARQUET
    from spark_jobs.tables.recorded_format import choose_format

    now = now_ms()
    older_than = now - retain_days * 86_400_000
    wanted = job.Maintenance(
        options["compacts"], target_file_bytes, options["expires"], older_than, now, options["dry_run"]
    )
    if local_folder(options["output"]) is not None:
        table_format = choose_format(open_storage(options["output"], None), options["table_format"])
        if table_format == PARQUET:
            note(_NOTHING_TO_MAINTAIN)
            return
    with (
        run_lock(lock_server(options), exclusive_uri(options["output"]), "maintain", now, options["wait_s"]) as lock,
        open_output_session(options) as (spark, storage, table_format),
    ):
        if table_format == PARQUET:
            note(_NOTHING_TO_MAINTAIN)
            return
        found = job.main(storage, open_tables(table_format, spark, storage), wanted, lock.check)
        storage.remove(layout.WRITABLE)
        write_rows(found, report, _MAINTAIN_COLUMNS)


@main.command()
@click.option("--output", required=True, metavar="FOLDER", help="The output folder of the jobs.")
@click.option(
    "-z", "--zookeeper", envvar="KAFKALITE_ZOOKEEPER", metavar="HOST:PORT,.../CHROOT", help="Also tell who is at work."
)
@given.options(given.SESSION, given.OUTPUT)
@_command
def status(zookeeper: str | None, report: str, **options: Any) -> None:
    """What is done, planned, or missing. Needs neither Spark nor brokers for a local folder."""
    from spark_jobs.jobs import status as job

    with open_ledger(options) as storage:
        write_rows(job.main(storage), report, (*_RESULT_COLUMNS, "done_at"))
    if zookeeper is not None:
        from spark_jobs.batch.run_lock import lock_holder

        note(f"at work: {lock_holder(zookeeper, exclusive_uri(options['output'])) or 'nobody'}")


@main.command()
@click.argument("night", metavar="NIGHT")
@click.option("--output", required=True, metavar="FOLDER", help="The output folder of the jobs.")
@click.option("--time-zone", default="UTC", show_default=True, help="Where days begin, for yesterday.")
@given.SESSION
@_command
def report(night: str, time_zone: str, **options: Any) -> None:
    """The page of a night (YYYY-MM-DD, today, yesterday), made again from the ledger. Prints where it is.

    Runs write it by themselves, to _report below the output folder.
    """
    from spark_jobs.jobs import report as job

    with open_ledger(options) as storage:
        for page in job.main(storage, [given.day(night, time_zone)]):
            click.echo(page)


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@click.argument("run_options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF RUN]...")
@schedule_options.SCHEDULE
@_command
def schedule(run_options: tuple[str, ...], **options: Any) -> None:
    """What starts a night every night: a systemd timer and service, a file for cron, an Airflow DAG, for the options of `run` that follow.

    Prints all of them, or one with --as. The day is the one that has ended, in the --time-zone of the run.
    """
    parsed = nightly.make_context("run", list(run_options)).params
    click.echo(schedule_options.write_schedule(run_options, parsed, options), nl=False)


def _write_entries(entries: list[Entry], report: str) -> None:
    from spark_jobs.jobs.status import row_of

    write_rows([row_of(entry) for entry in entries], report, _RESULT_COLUMNS)


def _fail(text: str, code: Exit) -> NoReturn:
    note(f"Error: {text}")
    raise SystemExit(int(code))
