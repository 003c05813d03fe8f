"""What can end a night early, each with its exit code and a message that says what to do.

Codes that other `kafkalite` commands have too mean the same (`kafkalite.cli.output.Exit`; a test compares them).
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class Exit(IntEnum):
    """Exit codes of `python -m spark_jobs`."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    EXISTS = 4
    UNREACHABLE = 5
    NOT_AUTHORIZED = 6
    CHECK_FAILED = 7
    DATA_LOSS = 8
    OUTPUT_FAILED = 9
    DEAD_LETTERS = 10
    INTERRUPTED = 130


class JobError(Exception):
    """The night cannot go on; `code` is the exit code, given as a keyword of the subclass."""

    code: ClassVar[Exit] = Exit.FAILED

    def __init_subclass__(cls, code: Exit | None = None) -> None:
        if code is not None:
            cls.code = code


class BadRequestError(JobError, code=Exit.USAGE):
    """What was asked for makes no sense: ending before starting, an unknown zone, a function that is not there."""


class UnknownTopicError(JobError, code=Exit.NOT_FOUND):
    """The cluster has no such topic."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"the cluster has no topic {topic}; `kafkalite topic list` shows those that it has")


class RunActiveError(JobError, code=Exit.EXISTS):
    """Another run holds the lock of the same output."""


class LockLostError(JobError, code=Exit.UNREACHABLE):
    """The ZooKeeper session ended, so another run may have begun: nothing more may be published."""


class ZooKeeperUnreachableError(JobError, code=Exit.UNREACHABLE):
    """No session with ZooKeeper, so nobody can tell whether another run is active."""


class DifferencesError(JobError, code=Exit.CHECK_FAILED):
    """The audit found that log and archive differ."""


class DataLossError(JobError, code=Exit.DATA_LOSS):
    """Offsets that are to be read are not in the log any more."""


class OutputError(JobError, code=Exit.OUTPUT_FAILED):
    """The output cannot be written or read, or holds something that it should not."""


class MissingRecordsError(JobError):
    """A job did not get what it was to read or send, so its date is not done and the next run repeats it."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}; the date is not done: run it again")


class MissingOutputError(OutputError):
    """Spark's files do not have what its tasks wrote, so nothing is published and the next run repeats it."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"{problem}; nothing was published: see whether Spark writes to that folder, then run the date again"
        )


class DeadLettersError(JobError, code=Exit.DEAD_LETTERS):
    """All is done and published, but more records became dead letters than are allowed."""
