"""`kafkalite-logs` in a log directory: summaries of its logs, so that a start reads this file and none of theirs.

    kafkalite-logs 1 clean <marker>       written by a clean stop, behind this marker of it
    kafkalite-logs 1 running <lock>       written by a broker that runs with this lock file, see `Disk.file_id`
    <CRC-32> <directory> <summary>        a line for each log, see `log_summary`; the CRC, in hexadecimal digits, of what follows it

The last line of a log counts. What a clean stop wrote counts as long as its marker is there, which the next start consumes: after another
stop, of Apache Kafka or of an earlier release, there is another marker, and a copy of the directory has another one, too. At
the end of a start the file is rewritten. Until the next clean stop, lines are appended for logs that changed and have been idle since.
Those count after a kill while the machine runs on, because the operating system has what was written; after a start of the machine the
lock file has another id, and all logs are checked for what the medium may have lost. A directory that fails loses the file.
Apache Kafka leaves it alone.
"""

from __future__ import annotations

import logging
import os
import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Final

from kafkalite.clock import Clock
from kafkalite.storage.log.log_summary import encode_summary, summarize_log
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.log_directory import LOCK, LogDirectory

logger = logging.getLogger(__name__)

FILE_NAME: Final = "kafkalite-logs"
_HEAD: Final = "kafkalite-logs 1 "
_LEAST_GROWTH_BYTES: Final = 1 << 20
_LARGEST_BYTES: Final = 1 << 26
"""A larger file is ignored; lines of 200,000 logs are shorter."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]+")
"""Names of directories that may stand in a line."""


class LogSummaries:
    """The summaries of the logs in `directory`."""

    def __init__(self, directory: LogDirectory, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._path = directory.file(FILE_NAME)
        self._accepted: dict[str, str] = {}
        """What the last start could count on, until it is over."""
        self._takes_lines = False
        """True from the end of a start on, if the file could be written."""
        self._size = self._size_at_once = 0
        """Sizes of a file that takes lines, now and without the lines that were added to it."""

    def read(self, marker: str | None) -> dict[str, str]:
        """Return the summaries that may count, by the names of the logs' directories.

        `marker` is the id of the marker of a clean stop, if there is one. Lines that are damaged are left out, and so are all when the file
        cannot be read.
        """
        try:
            self._accepted = self._read(self._running() if marker is None else _clean(marker))
        except OSError as problem:
            logger.warning("%s is ignored: %s", self._path, problem)
        return self._accepted

    def write_at_start(self, logs: Iterable[PartitionLog]) -> None:
        """Replace the file by one that has the summaries of these logs, which were just opened; an error is logged.

        What cannot be summarized now is read at the next start.
        """
        before, self._accepted = self._accepted, {}
        try:
            if writer := self._running():
                self._write(writer, logs, before, is_closed=False)
                self._takes_lines = True
        except OSError as problem:
            logger.warning("Summaries of logs not written: %s", problem)

    def write_at_stop(self, logs: Iterable[PartitionLog], marker: str) -> None:
        """Replace the file, durably, by one with the summaries of these logs, which were closed before this marker was written."""
        try:
            before = self._read(self._running()) if self._takes_lines else {}
            self._takes_lines = False
            self._write(_clean(marker), logs, before, is_closed=True)
        except OSError as problem:
            logger.warning("Summaries of logs not written: %s", problem)

    def add(self, logs: Iterable[PartitionLog]) -> None:
        """Add lines for these logs to the file; an error is logged, and the logs are left as not summarized."""
        if not self._takes_lines:
            return
        lines, fingerprints = [], []
        try:
            for log in logs:
                summary = self._summarize(log, self._clock.now_ms())
                fingerprints.append((log, fingerprint_of(log)))
                if summary is not None:
                    lines.append(_line(os.path.basename(log.directory), summary))
            content = "".join(f"\n{line}" for line in lines).encode()
            if lines and self._size + len(content) <= _LARGEST_BYTES:
                self._append(content)
        except OSError as problem:
            logger.warning("Summaries of logs not written: %s", problem)
        else:
            for log, fingerprint in fingerprints:
                log.summarized_as = fingerprint

    @property
    def is_overgrown(self) -> bool:
        """True if most lines count no more, so that `rewrite` is due."""
        return self._takes_lines and self._size > 2 * self._size_at_once + _LEAST_GROWTH_BYTES

    def rewrite(self) -> None:
        """Replace the file by one without the lines that count no more; an error is logged."""
        try:
            writer = self._running()
            self._replace(writer, self._read(writer).items(), durable=False)
            if not self._takes_lines:
                self.discard()  # the directory failed meanwhile
        except OSError as problem:
            logger.warning("Summaries of logs not written: %s", problem)

    def discard(self) -> None:
        """Remove the file, if that is possible, because the directory failed: the medium may not have what the operating system has."""
        self._takes_lines = False
        try:
            self._directory.disk.remove(self._path)
        except OSError as problem:
            logger.warning("%s is left behind: %s", self._path, problem)

    def _running(self) -> str:
        """Return the writer of lines that count while the machine runs; empty where its starts cannot be told apart. Raises OSError."""
        lock = self._directory.disk.file_id(self._directory.file(LOCK))
        return f"running {lock}" if lock else ""

    def _read(self, writer: str) -> dict[str, str]:
        """Return the summaries in the file by name; none if another one wrote it. Raises OSError."""
        try:
            file = self._directory.disk.open(self._path)
        except FileNotFoundError:
            return {}
        try:
            size = file.size()
            content = file.read_at(0, size) if size <= _LARGEST_BYTES else b""
        finally:
            file.close()
        head, *lines = content.split(b"\n")
        if not writer or head.decode(errors="replace") != _HEAD + writer:
            return {}
        found = {}
        for line in lines:
            crc, _, rest = line.partition(b" ")
            if rest and crc == _crc(rest):
                name, _, summary = rest.decode(errors="replace").partition(" ")
                found[name] = summary
        return found

    def _write(self, writer: str, logs: Iterable[PartitionLog], before: Mapping[str, str], *, is_closed: bool) -> None:
        after: list[tuple[str, str]] = []
        for log in logs:
            name, fingerprint = log.directory[log.directory.rfind(os.sep) + 1 :], fingerprint_of(log)
            if name in before and log.summarized_as == fingerprint:
                after.append((name, before[name]))
            elif summary := self._summarize(log, None if is_closed else self._clock.now_ms()):
                after.append((name, summary))
                log.summarized_as = fingerprint
        self._replace(writer, after, durable=is_closed)

    def _summarize(self, log: PartitionLog, now_ms: int | None) -> str | None:
        """Return the summary of a log whose directory has a plain name, see `log_summary`. Raises OSError."""
        if _PLAIN.fullmatch(os.path.basename(log.directory)) is None:
            return None
        summary = summarize_log(log, now_ms)
        return None if summary is None else encode_summary(summary)

    def _append(self, content: bytes) -> None:
        file = self._directory.disk.open(self._path)
        try:
            self._size = file.size()
            file.write_at(self._size, [content])
            self._size += len(content)
        finally:
            file.close()

    def _replace(self, writer: str, summaries: Iterable[tuple[str, str]], *, durable: bool) -> None:
        lines = [_HEAD + writer]
        size = len(lines[0])
        for name, summary in summaries:
            line = _line(name, summary)
            size += 1 + len(line)
            if size > _LARGEST_BYTES:
                break
            lines.append(line)
        content = "\n".join(lines).encode()
        self._directory.disk.replace(self._path, content, durable=durable)
        self._size = self._size_at_once = len(content)


def fingerprint_of(log: PartitionLog) -> int:
    """Return a number that differs once a log has changed in a way that a summary cannot do without. Others cost a start more, no more."""
    active = log.segments.active
    on_disk = log.epoch_file.on_disk
    epoch = on_disk[-1] if on_disk else None
    snapshot = log.snapshots.latest
    return hash(
        (log.log_end_offset, log.segments.first_base_offset, active.base_offset, *active.sizes(), epoch, snapshot)
    )


def _clean(marker: str) -> str:
    return f"clean {marker}"


def _line(name: str, summary: str) -> str:
    rest = f"{name} {summary}"
    return f"{_crc(rest.encode()).decode()} {rest}"


def _crc(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)
