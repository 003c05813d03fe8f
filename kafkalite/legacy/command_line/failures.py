"""Errors of the tools in the words of Apache Kafka: the message, and the Java class that some tools print before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_UNKNOWN_TOPIC_OR_PARTITION = 3
_ERRORS_PACKAGE = "org.apache.kafka.common.errors"


class ToolError(Exception):
    """Raised for an error that a tool prints. `java_class` is the full name of Kafka's exception, `cause` the error that led to it."""

    def __init__(
        self,
        message: str | None,
        java_class: str = "java.lang.IllegalArgumentException",
        cause: ToolError | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.java_class, self.cause = message, java_class, cause

    def __str__(self) -> str:
        """Return the error as Java prints a throwable: the class, and the message if there is one."""
        return self.java_class if self.message is None else f"{self.java_class}: {self.message}"

    def of_future(self) -> ToolError:
        """Return the error as a Java caller of the admin client sees it."""
        return self


def file_error(path: str, problem: OSError) -> ToolError:
    """Return Java's error for a file that cannot be read."""
    if isinstance(problem, FileNotFoundError):
        return ToolError(path, "java.nio.file.NoSuchFileException")
    if isinstance(problem, PermissionError):
        return ToolError(path, "java.nio.file.AccessDeniedException")
    return ToolError(problem.strerror, "java.io.IOException")


class TerseError(ToolError):
    """Raised for an error whose class is not printed, because the message is complete."""


def uncaught(problem: ToolError, *, with_cause: bool = False) -> TerseError:
    """Return the error as Java prints an exception that the tool did not catch."""
    cause = f"\nCaused by: {problem.cause}" if with_cause else ""
    return TerseError(f'Exception in thread "main" {problem}{cause}')


class CommandFailed(ToolError):
    """Raised when an action failed as a whole."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "org.apache.kafka.server.common.AdminCommandFailedException")


def operation_error(message: str) -> ToolError:
    """Return the error for unusable input."""
    return ToolError(message, "org.apache.kafka.server.common.AdminOperationException")


class UsageError(ToolError):
    """Raised when a command line cannot be read."""


class BrokerFailure(ToolError):
    """Raised when a broker refused a request or cannot be reached.

    `java_class` without a package is one of Kafka's errors. `failures` has the error of each item of a call over several, by the item's
    name; `done` has the results of the others.
    """

    def __init__(
        self,
        code: int,
        message: str,
        java_class: str,
        failures: Mapping[str, BrokerFailure] | None = None,
        done: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, java_class if "." in java_class else f"{_ERRORS_PACKAGE}.{java_class}")
        self.code, self.failures, self.done = code, dict(failures or {}), dict(done or {})

    @property
    def is_unknown_topic(self) -> bool:
        return self.code == _UNKNOWN_TOPIC_OR_PARTITION

    def of_future(self) -> ToolError:
        """Return the error in the ExecutionException in which Java's futures wrap it."""
        return ToolError(str(self), "java.util.concurrent.ExecutionException")


class InvalidConfiguration(ToolError):
    """Raised for an unknown setting, or a value that a setting cannot have."""

    def __init__(self, message: str) -> None:
        super().__init__(message, f"{_ERRORS_PACKAGE}.InvalidConfigurationException")
