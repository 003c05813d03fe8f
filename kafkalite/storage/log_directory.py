"""One entry of log.dirs: its lock, its clean-stop marker, its checkpoints, and what an input or output error means for it.

    .lock                   held as long as the process lives, so that no second broker opens the directory
    .kafka_cleanshutdown    all logs were closed properly; removed as soon as it is seen, before any log is opened
    meta.properties and the checkpoint files; see those modules

An error of the medium takes the whole directory offline: every later use of its logs is answered KAFKA_STORAGE_ERROR and
other directories go on. A full disk is no such error: the write is refused, reads go on, and writes too once there is room.
Nor is it one that the process has no more files, which says nothing of the disk.
"""

from __future__ import annotations

import functools
import logging
import os
from collections import deque
from collections.abc import Callable
from typing import Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.storage import checkpoints
from kafkalite.storage.disk import OUT_OF_FILES, OUT_OF_SPACE, Disk, FileVersion, Lock
from kafkalite.storage.log_files import (
    DELETE_DIRECTORY,
    FUTURE_DIRECTORY,
    NOT_LOGS,
    STRAY_DIRECTORY,
    partition_of,
)
from kafkalite.storage.meta_properties import FILE_NAME, MetaProperties, WrongDirectory, read_meta_properties
from kafkalite.storage.open_files import OpenFiles
from kafkalite.types import TopicPartition

logger = logging.getLogger(__name__)

CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"


class FoundDirectories(NamedTuple):
    """Paths of current and future logs by partition, and of what waits for its removal."""

    live: dict[TopicPartition, str]
    future: dict[TopicPartition, str]
    to_delete: list[str]
    versions: dict[str, FileVersion]
    """Versions of the logs' directories, by path."""


class Noted(Protocol):
    """A log that changes; `is_noted` while its directory has a note of that."""

    is_noted: bool

    @property
    def topic_partition(self) -> TopicPartition: ...


class LogDirectory:
    """A directory of logs at `path`. `offline_reason` is None as long as it works."""

    def __init__(self, disk: Disk, path: str, open_files_limit: int) -> None:
        self.disk = disk
        self.path = path
        self.files = OpenFiles(disk, open_files_limit)
        self.offline_reason: str | None = None
        self.logs = 0
        """Current logs of partitions, which `LogStore` counts."""
        self._lock: Lock | None = None
        self._changed: deque[Noted] = deque()
        self.on_failure: Callable[[LogDirectory], None] = lambda directory: None

    def __repr__(self) -> str:
        return f"LogDirectory({self.path}{', offline' if self.offline_reason else ''})"

    def file(self, name: str) -> str:
        """Return the path of a file at the directory's root."""
        return os.path.join(self.path, name)

    @property
    def is_locked(self) -> bool:
        """True if this process holds the directory's lock."""
        return self._lock is not None

    # Start and stop

    def open(self, *, create: bool = True) -> None:
        """Lock the directory, once, and make it if it is missing and that is allowed.

        Raises WrongDirectory when another process has it, OSError.
        """
        if self._lock is not None:
            return
        if create:
            self.disk.make_directory(self.path)
        try:
            self._lock = self.disk.lock(self.file(LOCK), create=create)
        except BlockingIOError:
            raise WrongDirectory(f"{self.path} is locked by another process; is a broker running there?") from None

    def close(self) -> None:
        self.files.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def read_meta_properties(self) -> MetaProperties | None:
        return read_meta_properties(self.disk, self.file(FILE_NAME))

    def clean_marker_id(self) -> str | None:
        """Return a text that no other marker of a clean stop has, nor a copy of this one; None without a marker. Raises OSError."""
        try:
            return "-".join(map(str, self.disk.status(self.file(CLEAN_SHUTDOWN)).version))
        except FileNotFoundError:
            return None

    def consume_clean_marker(self) -> bool:
        """Remove the marker of a clean stop. True if there was one."""
        marker = self.file(CLEAN_SHUTDOWN)
        if not self.disk.exists(marker):
            return False
        self.disk.remove(marker)
        self.disk.sync(self.path)
        return True

    def write_clean_marker(self) -> None:
        """Write the marker of a clean stop, once all logs are flushed and closed."""
        self.disk.replace(self.file(CLEAN_SHUTDOWN), b'{"version":0,"brokerEpoch":-1}')

    def scan(self) -> FoundDirectories:
        """Return the directories of logs. Raises WrongDirectory, OSError."""
        live: dict[TopicPartition, str] = {}
        future: dict[TopicPartition, str] = {}
        to_delete = []
        versions = {}
        for entry in self.disk.list(self.path):
            path = self.file(entry.name)
            if not entry.is_directory or entry.name in NOT_LOGS or entry.name.endswith(STRAY_DIRECTORY):
                continue
            if entry.name.endswith(DELETE_DIRECTORY):
                to_delete.append(path)
            else:
                is_future = entry.name.endswith(FUTURE_DIRECTORY)
                topic_partition = partition_of(entry.name.rpartition(".")[0] if is_future else entry.name)
                if topic_partition is None:
                    raise WrongDirectory(f"{path} is no partition's directory; move it away from the logs")
                (future if is_future else live)[topic_partition] = path
                versions[path] = entry.version
        return FoundDirectories(live, future, to_delete, versions)

    # Checkpoints

    def read_offsets(self, name: str) -> dict[TopicPartition, int]:
        """Return the offsets of a checkpoint; a malformed one is warned about and has none."""
        try:
            return checkpoints.read_offsets(self.disk, self.file(name))
        except checkpoints.MalformedCheckpoint as problem:
            logger.warning("Ignoring a checkpoint: %s", problem)
            return {}

    # Logs that changed

    def note_change(self, log: Noted) -> None:
        """Note that a log changed, once until `take_changed` returns it."""
        if not log.is_noted:
            log.is_noted = True
            self._changed.append(log)

    def take_changed(self) -> Noted | None:
        """Return the log whose change was noted first, which may have been given up meanwhile; None without any."""
        if not self._changed:
            return None
        log = self._changed.popleft()
        log.is_noted = False
        return log

    # Errors

    def failure(self, problem: OSError) -> KafkaError:
        """Return the error for the caller; takes the directory offline unless the disk is just full, or there are no more files."""
        if problem.errno in OUT_OF_SPACE:
            logger.warning("No room left in %s: %s", self.path, problem)
        elif problem.errno in OUT_OF_FILES:
            logger.warning("No more files for %s: %s", self.path, problem)
        else:
            self.take_offline(problem)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {self.path}: {problem}")

    def take_offline(self, problem: OSError) -> None:
        """Use nothing in the directory any more until the next start.

        What cannot be opened is lost from sight whatever the reason, a full disk too: a log that is made in its place would be empty,
        and this broker, which is in the ISR, would have its followers cut off what was committed.
        """
        if self.offline_reason is None:
            self.offline_reason = str(problem)
            logger.error("Log directory %s is offline from now on: %s", self.path, problem)
            self.on_failure(self)

    def require_online(self) -> None:
        """Raise KafkaError KAFKA_STORAGE_ERROR when the directory failed before."""
        if self.offline_reason is not None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {self.path} is offline: {self.offline_reason}"
            )


class _InDirectory(Protocol):
    log_directory: LogDirectory


class _NotedInDirectory(Noted, Protocol):
    log_directory: LogDirectory


_Self = TypeVar("_Self", bound=_InDirectory)
_Log = TypeVar("_Log", bound=_NotedInDirectory)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def uses_disk(
    method: Callable[Concatenate[_Self, _Arguments], _Result],
) -> Callable[Concatenate[_Self, _Arguments], _Result]:
    """Wrap a method so that it raises KafkaError KAFKA_STORAGE_ERROR when its directory is offline or the disk fails it."""

    @functools.wraps(method)
    def run_guarded(self: _Self, *arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        directory = self.log_directory
        if directory.offline_reason is not None:
            directory.require_online()
        try:
            return method(self, *arguments, **named)
        except OSError as problem:
            raise directory.failure(problem) from problem

    return cast("Callable[Concatenate[_Self, _Arguments], _Result]", run_guarded)


def changes_disk(
    method: Callable[Concatenate[_Log, _Arguments], _Result],
) -> Callable[Concatenate[_Log, _Arguments], _Result]:
    """Wrap a method of a log as `uses_disk` does; afterwards the log is noted as changed, also where it failed."""

    @functools.wraps(method)
    def run_guarded(self: _Log, *arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        directory = self.log_directory
        if directory.offline_reason is not None:
            directory.require_online()
        try:
            return method(self, *arguments, **named)
        except OSError as problem:
            raise directory.failure(problem) from problem
        finally:
            if not self.is_noted:
                directory.note_change(self)

    return cast("Callable[Concatenate[_Log, _Arguments], _Result]", run_guarded)
