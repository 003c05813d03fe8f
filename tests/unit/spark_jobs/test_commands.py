"""What `python -m spark_jobs` refuses before it starts anything, and what errors become."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest
from click.testing import CliRunner
from pyspark.errors import AnalysisException, PySparkRuntimeError

from deploy.examples.flights.night import DAY, night_arguments
from kafkalite.cli.output import Exit as CommandExit
from kafkalite.client import ClientError
from kafkalite.client.errors import NoBrokersAvailableError
from kafkalite.errors import ErrorCode
from spark_jobs.batch.endings import ending, spark_reason
from spark_jobs.batch.failures import DataLossError, Exit
from spark_jobs.batch.session import has_utf8_locale
from spark_jobs.command_options import program
from spark_jobs.commands import main, nightly
from spark_jobs.registry.schemas import Schema
from tests.unit.spark_jobs.registry.http_registry import http_registry

PLACE = ["--topic", "t", "--output", "/nowhere"]
AVRO = ["nightly", *PLACE, "--value-format", "avro"]
NO_REGISTRY = ["--schema-registry", "http://127.0.0.1:1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nightly", *PLACE, "--date", "15.6.2013"], "'15.6.2013' is no date"),
        (["nightly", *PLACE, "--time-zone", "Mars"], "there is no time zone 'Mars'"),
        (["nightly", *PLACE, "--value-format", "json"], "the format json needs a schema"),
        (["nightly", *PLACE, "--key-schema", "a int"], "the format bytes has no schema"),
        (["nightly", *PLACE, "--value-format", "json", "--value-schema", "@/nowhere/x"], "cannot read the schema"),
        (["nightly", *PLACE, "--key-format", "thrift"], "Invalid value for '--key-format': 'thrift' is not one of"),
        (AVRO, "the format avro needs --schema-registry URL"),
        ([*AVRO, "--schema-registry", "localhost:8081"], "'localhost:8081' is not like http://localhost:8081"),
        ([*AVRO, "--schema-registry", "http://me:secret@h"], "the schema registry at h has credentials in it"),
        ([*AVRO, *NO_REGISTRY, "--schema-registry-user-info", "/nowhere"], "--schema-registry-user-info: cannot read"),
        ([*AVRO, *NO_REGISTRY, "--schema-registry-ca", "/nowhere"], "--schema-registry-ca: cannot read /nowhere"),
        ([*AVRO, *NO_REGISTRY, "--value-schema", "newest"], "the schema 'newest' for values is neither latest, nor"),
        ([*AVRO, *NO_REGISTRY, "--value-schema", "@/nowhere"], "cannot read the schema /nowhere"),
        ([*AVRO, *NO_REGISTRY, "--value-subject", " , "], "the subject for values is empty"),
        (
            [*AVRO, *NO_REGISTRY, "--key-subject", "a"],
            "--key-subject is for formats of a schema registry, not for bytes",
        ),
        (
            [*AVRO, *NO_REGISTRY, "--value-message", "a.B"],
            "a message for values is for the format protobuf, not for avro",
        ),
        ([*AVRO, *NO_REGISTRY, "--key-message", "a.B"], "--key-message is for formats of a schema registry, not for b"),
        (["nightly", *PLACE, "--transform", "delays"], "'delays' is not like module:function"),
        (["nightly", *PLACE, "--transform", "no_such_module:f"], "cannot import no_such_module"),
        (["nightly", *PLACE, "--transform", "json:no_such"], "module json has no function no_such"),
        (["nightly", *PLACE, "--transform", "json:dumps", "--no-to-parquet"], "goes nowhere"),
        (["nightly", *PLACE, "-X", "security.protocol"], "-X 'security.protocol' is not like key=value"),
        (["reprocess", *PLACE], "reprocess needs --transform"),
        (["backfill", *PLACE, "--from", "2013-02-01", "--to", "2013-01-01"], "is before the first one"),
        (["audit", *PLACE, "--date", "2013-02-01", "--to", "2013-01-01"], "is before the first one"),
        (["nightly"], "Missing option"),
        (["nightly", *PLACE, "--table-format", "hudi"], "'hudi' is not one of 'parquet', 'delta', 'iceberg'"),
        (["maintain"], "Missing option '--output'"),
        (["maintain", "--output", "/nowhere", "--retain-days", "0"], "Invalid value for '--retain-days'"),
        (["nightly", *PLACE, "--rows-per-task", "0"], "Invalid value for '--rows-per-task'"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr


def test_no_zookeeper_and_no_broker_is_exit_code_5() -> None:
    result = CliRunner().invoke(main, ["nightly", *PLACE, "--no-lock", "-b", "127.0.0.1:1", "--date", "2013-06-15"])
    assert result.exit_code == 5
    assert "no broker can be reached (127.0.0.1:1: " in result.stderr


def test_no_registry_is_exit_code_5() -> None:
    result = CliRunner().invoke(main, [*AVRO, *NO_REGISTRY, "--no-lock", "--date", "2013-06-15"])
    assert result.exit_code == 5, result.output
    assert "the schema registry http://127.0.0.1:1 cannot be reached" in result.stderr


VERSION = {"subject": "t-value", "version": 2, "id": 7, "schema": '"long"'}


def test_formats_of_a_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    password = tmp_path / "password"
    password.write_text("me:secret\n")
    paths = {"/subjects/t-value/versions/latest": VERSION, "/subjects/k/versions/2?deleted=true": VERSION}
    with http_registry(paths, user_info="me:secret") as url:
        monkeypatch.setenv("KAFKALITE_SCHEMA_REGISTRY", url)
        given = [*AVRO[1:], "--key-format", "avro", "--key-schema", "2", "--key-subject", "k"]
        context = nightly.make_context("nightly", [*given, "--schema-registry-user-info", str(password)])
        found = program(context.params).formats
        assert found.value.lookup is not None and found.key.lookup is not None
        assert found.value.lookup.reader("t") == found.key.lookup.reader("t") == Schema('"long"')
        monkeypatch.setenv("KAFKALITE_SCHEMA_REGISTRY_USER_INFO", "me:secret")
        assert program(nightly.make_context("nightly", given).params).formats.value.name == "avro"


@pytest.mark.parametrize(
    ("subject", "user_info", "code", "message"),
    [
        ("absent", "me:secret", 3, "the schema registry has no such subject or version"),
        ("k", "me:wrong", 6, "the schema registry answered 401"),
        ("not-avro", "me:secret", 2, "version 2 of subject not-avro at http://127.0.0.1:"),
    ],
)
def test_what_a_registry_refuses_has_its_exit_code(
    subject: str, user_info: str, code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKALITE_SCHEMA_REGISTRY_USER_INFO", user_info)
    paths = {
        "/subjects/k/versions/latest": VERSION,
        "/subjects/not-avro/versions/latest": {**VERSION, "schema": '"colour"'},
    }
    with http_registry(paths, user_info="me:secret") as url:
        arguments = ["--schema-registry", url, "--value-subject", subject, "--no-lock"]
        result = CliRunner().invoke(main, [*AVRO, *arguments])
    assert result.exit_code == code, result.output
    assert message in result.stderr and "secret" not in result.stderr


def test_status_of_an_empty_folder(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["status", "--output", str(tmp_path), "-o", "json"])
    assert (result.exit_code, result.stdout) == (0, "[]\n")


def test_nothing_is_to_be_maintained_in_folders_of_parquet(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["maintain", "--output", str(tmp_path / "none"), "--no-lock"])
    assert (result.exit_code, result.stdout) == (0, "")
    assert "the output has Parquet files" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_table_format_without_a_package_for_this_spark_ends_before_spark_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark, "__version__", "9.1.0")
    result = CliRunner().invoke(main, ["maintain", "--output", str(tmp_path), "--no-lock", "--table-format", "delta"])
    assert result.exit_code == 2
    assert "no package of Delta Lake is known for Spark 9.1.0" in result.stderr


def test_exit_codes_are_those_of_all_commands() -> None:
    ours = {each.name: each.value for each in Exit}
    assert ours == ours | {each.name: each.value for each in CommandExit}


def test_the_demo_asks_for_a_night_that_can_be(tmp_path: Path) -> None:
    context = nightly.make_context("nightly", night_arguments("h:1", "h:2", "flights", tmp_path))
    assert context.params["day"] == DAY
    assert context.params["topics"] == ("flights",)
    wanted = program(context.params)
    assert wanted.formats.value.name == "msgpack"
    assert wanted.reprocessing is not None and wanted.reprocessing.name == "delays"


def test_help_lists_the_exit_codes() -> None:
    text = " ".join(CliRunner().invoke(main, ["--help"]).stdout.split())
    for code in Exit:
        assert f"{code.value} " in text


@pytest.mark.parametrize(
    ("problem", "code", "message"),
    [
        (DataLossError("gone"), Exit.DATA_LOSS, "gone"),
        (
            ClientError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no"),
            Exit.NOT_AUTHORIZED,
            "no [TOPIC_AUTHORIZATION_FAILED]",
        ),
        (ClientError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no"), Exit.NOT_FOUND, "no [UNKNOWN_TOPIC_OR_PARTITION]"),
        (NoBrokersAvailableError({}), Exit.UNREACHABLE, "no broker can be reached"),
        (
            AnalysisException("Job aborted\n  File x\nspark_jobs.ranges.DataLossError: offsets 3 to 5 are gone\n at y"),
            Exit.DATA_LOSS,
            "offsets 3 to 5 are gone",
        ),
        (
            AnalysisException("Job aborted\nValueError: first\n at y\nZeroDivisionError: division by zero\n at z"),
            Exit.FAILED,
            "Spark gave up: ZeroDivisionError: division by zero",
        ),
    ],
)
def test_errors_have_their_exit_codes(problem: Exception, code: Exit, message: str) -> None:
    found, text = ending(problem)
    assert found is code
    assert message in text


TRACEBACK = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in main
    raise ValueError("first")
ValueError: first

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "worker.py", line 2, in main
    convert(batch)
    ^^^^^^^^^^^^^^
{}

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
Caused by: java.lang.IllegalStateException: no
"""


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        ("pyarrow.lib.ArrowInvalid: Casting would overflow", "pyarrow.lib.ArrowInvalid: Casting would overflow"),
        ("struct.error: required argument is not an integer", "struct.error: required argument is not an integer"),
        ("my_module.BadRow: row 7 is bad\n  and more of it", "my_module.BadRow: row 7 is bad"),
        ("BadRow", "BadRow"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("ValueError: Casting: x", "ValueError: Casting: x"),
        ("Grund.Größe: zu groß", "Grund.Größe: zu groß"),
    ],
)
def test_the_reason_of_a_failed_night_whatever_its_exception_is_called(raised: str, reason: str) -> None:
    assert spark_reason(TRACEBACK.format(raised)) == reason
    assert ending(AnalysisException(TRACEBACK.format(raised))) == (Exit.FAILED, f"Spark gave up: {reason}")


def test_the_reason_in_a_group_of_exceptions() -> None:
    text = (
        '  + Exception Group Traceback (most recent call last):\n  |   File "x.py", line 1, in f\n  |     work()\n'
        "  | ExceptionGroup: two (1 sub-exception)\n  +-+---------------- 1 ----------------\n"
        '    | Traceback (most recent call last):\n    |   File "x.py", line 2, in g\n    |     return\n    | BadRow: 3\n'
        "    +------------------------------------\n"
    )
    assert spark_reason(text) == "BadRow: 3"


@pytest.mark.parametrize("name", ["../x", "a/b", ".x"])
def test_names_of_results_are_folders_below_the_output(name: str) -> None:
    result = CliRunner().invoke(main, ["nightly", *PLACE, "--transform", "json:dumps", "--name", name])
    assert result.exit_code == 2 and "without slashes" in result.stderr


@pytest.mark.parametrize(
    ("variables", "utf8"),
    [
        ({}, False),
        ({"LANG": "C"}, False),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
        ({"LANG": "de_DE.UTF-8"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.utf8"}, True),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "POSIX"}, False),
        ({"LC_ALL": "", "LANG": "C.UTF-8"}, True),
    ],
)
def test_locales_in_which_java_finds_all_names(variables: dict[str, str], utf8: bool) -> None:
    assert has_utf8_locale(variables) == utf8


def test_faults_of_the_program_are_not_hidden() -> None:
    assert ending(KeyError("x"))[0] is None


def test_a_missing_java_is_told_with_the_remedy() -> None:
    code, text = ending(PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={}))
    assert code is Exit.FAILED
    assert (
        text
        == "Spark's Java could not be started; install Java 17 or newer (openjdk-17-jre-headless), or set JAVA_HOME"
    )
