"""Sessions for tables: what Java prints, and what is said when it cannot be started."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, NoReturn

import pytest
from pyspark.errors import PySparkRuntimeError

from spark_jobs.batch.failures import BadRequestError
from spark_jobs.tables import session

PROGRAM = """
import subprocess
from spark_jobs.tables.session import stdout_as_stderr
print("first")
with stdout_as_stderr():
    subprocess.run(["echo", "from Java"], check=True)
print("last")
"""


def test_what_java_prints_goes_to_stderr() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)
    assert (done.stdout, done.stderr) == ("first\nlast\n", "from Java\n")


def fail_to_start(monkeypatch: pytest.MonkeyPatch, error_class: str) -> None:
    def fail(*_: Any) -> NoReturn:
        raise PySparkRuntimeError(errorClass=error_class, messageParameters={})

    monkeypatch.setattr(session, "open_session", fail)


def test_a_java_that_finds_no_package_is_told_with_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_start(monkeypatch, "JAVA_GATEWAY_EXITED")
    wanted = {"spark.jars.packages": "io.delta:delta-spark_2.13:4.0.0"}
    with pytest.raises(BadRequestError, match="could not be started") as problem:
        session.open_table_session("delta", "local[1]", wanted, "FATAL")
    assert "in io.delta:delta-spark_2.13:4.0.0. Packages come from Maven Central" in str(problem.value)
    assert "--conf spark.jars=FILE.jar" in str(problem.value)


def test_other_failures_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_start(monkeypatch, "JAVA_GATEWAY_EXITED")
    with pytest.raises(PySparkRuntimeError):
        session.open_table_session(None, "local[1]", {}, "FATAL")
    fail_to_start(monkeypatch, "SESSION_OR_CONTEXT_NOT_EXISTS")
    with pytest.raises(PySparkRuntimeError):
        session.open_table_session("delta", "local[1]", {"spark.jars": "x.jar"}, "FATAL")
