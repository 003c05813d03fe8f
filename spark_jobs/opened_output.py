"""An output folder that a command works on: its storage, Spark session and lock, and the night over them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from spark_jobs import command_options as given
from spark_jobs.batch.failures import BadRequestError, Exit
from spark_jobs.batch.window import time_zone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.archived.folder_rows import Archive
    from spark_jobs.batch.night import Night
    from spark_jobs.batch.storage import Storage


def note(text: str) -> None:
    """Tell the user something beside the result."""
    click.echo(text, err=True)


@contextmanager
def open_night(options: Mapping[str, Any], purpose: str) -> Iterator[Night]:
    """Open lock, cluster and Spark session, and finish first what an earlier run left unfinished."""
    from spark_jobs.batch.cluster_log import ClusterLog
    from spark_jobs.batch.night import Night, clear_left, now_ms, recover
    from spark_jobs.batch.records import Reading
    from spark_jobs.batch.run_lock import run_lock
    from spark_jobs.batch.signatures import load_signer
    from spark_jobs.observation.progress import open_board
    from spark_jobs.tables.output_tables import open_tables
    from spark_jobs.tables.packages import PARQUET
    from spark_jobs.tables.recorded_format import record_format

    settings = {"bootstrap.servers": options["bootstrap_server"], **given.pairs(options["kafka_settings"], "-X")}
    time_zone(options["time_zone"])
    sign = load_signer(options["ledger_key"]) if options.get("ledger_key") is not None else None
    begun_s = time.monotonic()
    with (
        run_lock(lock_server(options), exclusive_uri(options["output"]), purpose, now_ms(), options["wait_s"]) as lock,
        ClusterLog(settings) as log,
    ):
        # What is wrong with a name or a folder is told before Spark is started.
        for topic in options["topics"]:
            log.bounds(topic)
        with open_output_session(options) as (spark, storage, table_format):
            record_format(storage, table_format)
            night = Night(
                spark,
                log,
                storage,
                Reading(
                    settings,
                    options["time_zone"],
                    options["rows_per_task"],
                    options["max_file_bytes"],
                    options["fail_on_data_loss"],
                    options["bytes_per_task"],
                ),
                lock.check,
                note,
                options.get("refresh", False),
                options["group_prefix"],
                sign=sign,
                journal=options["journal"],
                progress=open_board(note),
                tables=None if table_format == PARQUET else open_tables(table_format, spark, storage),
            )
            recover(night)
            night.journal.ready_ms = round((time.monotonic() - begun_s) * 1000)
            with _pages(night):
                yield night
            clear_left(night.storage)


@contextmanager
def open_output_session(
    options: Mapping[str, Any], *, writes: bool = True
) -> Iterator[tuple[SparkSession, Storage, str]]:
    """Open a Spark session for the output, which has a table format; what is wrong with a local one is told before Spark is started.

    Without `writes` the output is only read.
    """
    from spark_jobs.batch import layout
    from spark_jobs.batch.hadoop_storage import check_seen
    from spark_jobs.batch.storage import local_folder
    from spark_jobs.tables.packages import PARQUET
    from spark_jobs.tables.recorded_format import choose_format
    from spark_jobs.tables.session import check_classes, open_table_session

    table_format: str | None = options["table_format"]
    local = None if local_folder(options["output"]) is None else open_storage(options["output"], None)
    if local is not None:
        local.spark_path("")
        if writes:
            local.write(layout.WRITABLE, b"")
        table_format = choose_format(local, table_format)
    given_settings = given.pairs(options["spark_settings"], "--conf")
    spark = open_table_session(table_format, _master(options["master"]), given_settings, options["spark_log_level"])
    try:
        if local is not None:
            check_seen(spark, local, layout.WRITABLE if writes else layout.TABLE_FORMAT)
        storage = open_storage(options["output"], spark)
        chosen = choose_format(storage, table_format)
        if chosen not in (PARQUET, table_format):  # of a folder that only Spark can look into
            raise BadRequestError(f"{storage.uri} has nights as {chosen}: give --table-format {chosen}")
        check_classes(spark, chosen, given_settings)
        yield spark, storage, chosen
    finally:
        spark.stop()


@contextmanager
def open_archive(options: Mapping[str, Any]) -> Iterator[tuple[Storage, Archive]]:
    """Open an output to read what runs have left there; only tables, and files out of Python's reach, need a Spark session."""
    from spark_jobs.archived.folder_rows import FolderArchive
    from spark_jobs.batch.storage import local_folder
    from spark_jobs.tables.packages import PARQUET
    from spark_jobs.tables.recorded_format import choose_format

    if local_folder(options["output"]) is not None:
        local = open_storage(options["output"], None)
        if choose_format(local, options["table_format"]) == PARQUET:
            yield local, FolderArchive(local)
            return
    with open_output_session(options, writes=False) as (spark, storage, table_format):
        if table_format == PARQUET:
            yield storage, FolderArchive(storage)
            return
        from spark_jobs.archived.table_rows import TableArchive
        from spark_jobs.tables.output_tables import open_tables

        yield storage, TableArchive(spark, storage, open_tables(table_format, spark, storage))


def lock_server(options: Mapping[str, Any]) -> str | None:
    """Return the ZooKeeper that keeps two runs on one output apart; None where the user wants no lock."""
    return None if options["no_lock"] else options["zookeeper"]


def exclusive_uri(output: str) -> str:
    """Return the URI by which runs on the output exclude each other."""
    from spark_jobs.batch.storage import local_folder

    return folder.as_uri() if (folder := local_folder(output)) is not None else output.rstrip("/")


@contextmanager
def _pages(night: Night) -> Iterator[None]:
    """Write the pages of the dates that were worked on, however that ends; what hinders it is told and changes nothing."""
    from spark_jobs.batch.endings import ending
    from spark_jobs.jobs import report

    told = ""
    try:
        yield
    except Exception as problem:
        code, text = ending(problem)
        told = "" if code in (Exit.CHECK_FAILED, Exit.DEAD_LETTERS) else f"The run failed: {text}"
        raise
    finally:
        try:
            night.journal.pages = report.main(night.storage, sorted(night.journal.begun), told)
        except Exception as problem:
            note(f"warning: the page of the night was not written: {problem}")


@contextmanager
def open_ledger(options: Mapping[str, Any]) -> Iterator[Storage]:
    """Open an output of which only the ledger is read; only one that is out of Python's reach needs a Spark session."""
    from spark_jobs.batch.session import open_session
    from spark_jobs.batch.storage import local_folder

    if local_folder(options["output"]) is not None:
        yield open_storage(options["output"], None)
        return
    given_settings = given.pairs(options["spark_settings"], "--conf")
    spark = open_session(_master(options["master"]), given_settings, options["spark_log_level"])
    try:
        yield open_storage(options["output"], spark)
    finally:
        spark.stop()


def open_storage(output: str, spark: SparkSession | None) -> Storage:
    """Return the storage of an output; only that of a local folder needs no Spark session."""
    from spark_jobs.batch.storage import LocalStorage, local_folder

    if (folder := local_folder(output)) is not None:
        return LocalStorage(folder)
    from spark_jobs.batch.hadoop_storage import open_hadoop_storage

    assert spark is not None
    return open_hadoop_storage(spark, output)


def _master(given: str | None) -> str | None:
    """Return Spark's master; None under spark-submit, which starts the JVM first and has told it the master."""
    return given or (None if "PYSPARK_GATEWAY_PORT" in os.environ else "local[*]")
