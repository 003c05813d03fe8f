"""What an exception means for the user: an exit code and a message. Errors of Spark's tasks are found in what Spark says of them."""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from kafkalite.client import ClientError
from kafkalite.client.errors import ClientTimeoutError, NoBrokersAvailableError
from kafkalite.errors import ErrorCode
from spark_jobs.batch.failures import Exit, JobError
from spark_jobs.options import OptionError
from spark_jobs.registry.client import (
    RegistryError,
    RegistryNotAuthorizedError,
    RegistryUnreachableError,
    UnknownSchemaError,
)
from spark_jobs.registry.lookup import ChoiceError
from spark_jobs.registry.schemas import SchemaError
from spark_jobs.worker_python import WorkerPythonError

_NOT_FOUND: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_DATA_LOSS: Final = re.compile(r"DataLossError: (.*)")
_ERROR: Final = re.compile(r"^(?:: |Caused by: )?([\w.$]*(?:Error|Exception)): (.*)$", re.MULTILINE)
_TRACEBACK: Final = "Traceback (most recent call last):"
_MARGIN: Final = re.compile(r"^ *\| ?")
_RAISED: Final = re.compile(r"[^\W\d][\w.]*(?:: .*|:?\s*$)")
"""The line of a traceback that names the exception, which may have no message."""
_OF_JAVA: Final = re.compile(r"(?:org|java|py4j)\.")

_REGISTRY_EXITS: Final[dict[type[RegistryError], Exit]] = {
    RegistryUnreachableError: Exit.UNREACHABLE,
    RegistryNotAuthorizedError: Exit.NOT_AUTHORIZED,
    UnknownSchemaError: Exit.NOT_FOUND,
}

SPARK_ERRORS: Final = (PySparkException, Py4JError)
"""What a query may raise."""


def ending(problem: Exception) -> tuple[Exit | None, str]:
    """Return exit code and message; None for a code when it is a fault of the program, whose trace should be seen."""
    if isinstance(problem, JobError):
        return problem.code, str(problem)
    if isinstance(problem, RegistryError):
        return _REGISTRY_EXITS.get(type(problem), Exit.FAILED), str(problem)
    if isinstance(problem, OptionError | WorkerPythonError | SchemaError | ChoiceError):
        return Exit.USAGE, str(problem)
    if isinstance(problem, ClientError):
        return _client_exit(problem), f"{problem} [{problem.name}]"
    if isinstance(problem, SPARK_ERRORS):
        return _spark_ending(str(problem))
    return None, str(problem)


def _client_exit(problem: ClientError) -> Exit:
    if isinstance(problem, NoBrokersAvailableError | ClientTimeoutError):
        return Exit.UNREACHABLE
    if problem.code in _NOT_FOUND:
        return Exit.NOT_FOUND
    if problem.name.endswith("AUTHORIZATION_FAILED"):
        return Exit.NOT_AUTHORIZED
    return Exit.FAILED


_NO_JAVA: Final = (
    "Spark's Java could not be started; install Java 17 or newer (openjdk-17-jre-headless), or set JAVA_HOME"
)


def _spark_ending(text: str) -> tuple[Exit, str]:
    if "JAVA_GATEWAY_EXITED" in text:
        return Exit.FAILED, _NO_JAVA
    if lost := _DATA_LOSS.search(text):
        return Exit.DATA_LOSS, lost[1]
    return Exit.FAILED, f"Spark gave up: {spark_reason(text)}"


def spark_reason(text: str) -> str:
    """Return the line that says why: how the last traceback of a task's Python ends, else the last error by its name, of Java too.

    The last is the reason of those before it.
    """
    if raised := _find_python_error(text):
        return raised
    errors = _ERROR.findall(text)
    in_python = [error for error in errors if not _OF_JAVA.match(error[0])]
    for name, message in reversed(in_python or errors):
        return f"{name}: {message}"
    return (text.strip().splitlines() or ["no reason given"])[0]


def _find_python_error(text: str) -> str | None:
    """Return the exception, of whatever name, below the frames of the last traceback; None without one."""
    _, traceback, below = text.rpartition(_TRACEBACK)
    if not traceback:
        return None
    for line in below.splitlines()[1:]:
        # Frames are indented; in a group of exceptions everything has a margin of bars.
        bare = _MARGIN.sub("", line)
        if bare and not bare[0].isspace() and (raised := _RAISED.match(bare)):
            return raised[0].rstrip()
    return None
