"""Spark sessions that know a table format, and what to say where they do not."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyspark
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkRuntimeError

from spark_jobs.batch.failures import BadRequestError
from spark_jobs.batch.session import open_session
from spark_jobs.tables.packages import NEEDS, PARQUET, missing_package_text, session_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_table_session(
    table_format: str | None, master: str | None, given: Mapping[str, str], log_level: str
) -> SparkSession:
    """Return a session for the format, with the user's settings (`given`); None is Parquet. BadRequestError about its package."""
    chosen = table_format or PARQUET
    settings = session_settings(chosen, pyspark.__version__, given)
    try:
        if chosen == PARQUET:
            return open_session(master, settings, log_level)
        with stdout_as_stderr():
            return open_session(master, settings, log_level)
    except PySparkRuntimeError as problem:
        # Java resolves packages before it answers, and ends when it cannot; it has said why on stderr.
        if chosen == PARQUET or problem.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise BadRequestError(
            f"Spark's Java could not be started; {missing_package_text(chosen, settings)}"
        ) from problem


@contextmanager
def stdout_as_stderr() -> Iterator[None]:
    """Give programs that are started meanwhile stderr for their stdout: Delta Lake prints what it does, amid our rows."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def check_classes(spark: SparkSession, table_format: str, given: Mapping[str, str]) -> None:
    """Raise BadRequestError, which says how to get them, when Spark's Java does not have the classes of the format."""
    if table_format == PARQUET:
        return
    context: Any = spark.sparkContext
    jvm: Any = context._jvm
    try:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()  # knows spark.jars
        jvm.java.lang.Class.forName(NEEDS[table_format].proof, False, loader)
    except Py4JJavaError as problem:
        raise BadRequestError(missing_package_text(table_format, given)) from problem
