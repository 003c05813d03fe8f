"""What goes wrong in a tool, in the words of Apache Kafka: the message, and the Java class that some tools print before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_UNKNOWN_TOPIC_OR_PARTITION = 3
_ERRORS_PACKAGE = "org.apache.kafka.common.errors"


class ToolError(Exception):
    """An error that a tool prints; `java_class` is the full name of Kafka's exception, `cause` what was behind it."""

    def __init__(
        self,
        message: str | None,
        java_class: str = "java.lang.IllegalArgumentException",
        cause: ToolError | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.java_class, self.cause = message, java_class, cause

    def __str__(self) -> str:
        """As Java prints a throwable: the class, and the message if there is one."""
        return self.java_class if self.message is None else f"{self.java_class}: {self.message}"


def file_error(path: str, problem: OSError) -> ToolError:
    """What Java says of a file that cannot be read."""
    if isinstance(problem, FileNotFoundError):
        return ToolError(path, "java.nio.file.NoSuchFileException")
    if isinstance(problem, PermissionError):
        return ToolError(path, "java.nio.file.AccessDeniedException")
    return ToolError(problem.strerror, "java.io.IOException")


class TerseError(ToolError):
    """An error whose message says all; its class is not printed."""


class CommandFailed(ToolError):
    """An action that could not be done as a whole."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "org.apache.kafka.server.common.AdminCommandFailedException")


def operation_error(message: str) -> ToolError:
    """An input that cannot be worked with."""
    return ToolError(message, "org.apache.kafka.server.common.AdminOperationException")


class UsageError(ToolError):
    """A command line that cannot be read."""


class BrokerFailure(ToolError):
    """What a broker, or the way to it, refused.

    `java_class` without a package is one of Kafka's errors. `failures` has the error of each item of a call over several, by its
    name; `done` what the broker told of the others.
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
        """The same as Java's futures throw it."""
        return ToolError(str(self), "java.util.concurrent.ExecutionException")


class InvalidConfiguration(ToolError):
    """A setting that is not there, or that cannot be as it was given."""

    def __init__(self, message: str) -> None:
        super().__init__(message, f"{_ERRORS_PACKAGE}.InvalidConfigurationException")
