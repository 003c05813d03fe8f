"""Checkpoint files: small tables of text that are replaced as a whole.

    0                                   version
    <n>                                 number of entries
    <topic> <partition> <offset>        n lines; in leader-epoch-checkpoint: <epoch> <start offset>

In each log directory: recovery-point-offset-checkpoint (what lies below is on the medium), log-start-offset-checkpoint (where
a log begins later than its first segment), replication-offset-checkpoint (high watermarks), cleaner-offset-checkpoint (first
offset not yet compacted). In each partition's directory: leader-epoch-checkpoint. A missing or empty file has no entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from kafkalite.failpoints import reach
from kafkalite.storage.disk import Disk
from kafkalite.types import TopicPartition

RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
LOG_START: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK: Final = "replication-offset-checkpoint"
CLEANER: Final = "cleaner-offset-checkpoint"

_VERSION = "0"
_NUMBER: Final = re.compile("-?[0-9]{1,19}")
"""A number as brokers write it; `int` accepts more (other digits, blanks, thousands of digits)."""
_EPOCH_MAX: Final = (1 << 31) - 1


class MalformedCheckpoint(OSError):
    """A checkpoint file that is not of the form above; `position` is where the offending line begins."""

    def __init__(self, message: str, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Return the offsets in a checkpoint file. Raises OSError, MalformedCheckpoint among them."""
    offsets = {}
    for fields in _read(disk, path, 3):
        offsets[TopicPartition(fields[0], int(fields[1]))] = int(fields[2])
    return offsets


def offset_line(topic_partition: TopicPartition, offset: int) -> str:
    """Return the line of a partition's offset."""
    return f"{topic_partition.topic} {topic_partition.partition} {offset}\n"


def write_lines(disk: Disk, path: str, lines: bytes, *, durable: bool = True) -> None:
    """Replace a checkpoint file, by one with `lines` of `offset_line`. Raises OSError.

    One that is not `durable` survives the end of the process, but perhaps not that of the machine.
    """
    reach("checkpoint.replacing")
    count = lines.count(b"\n")
    disk.replace(path, b"%s\n%d\n%s" % (_VERSION.encode(), count, lines), durable=durable)


def read_epochs(disk: Disk, path: str) -> list[tuple[int, int]]:
    """Return the (epoch, start offset) pairs of a leader-epoch-checkpoint. Raises OSError, MalformedCheckpoint among them."""
    entries = [(int(epoch), int(start)) for epoch, start in _read(disk, path, 2)]
    for epoch, _ in entries:
        if epoch > _EPOCH_MAX:
            raise MalformedCheckpoint(f"{path}: {epoch} is no leader epoch")
    return entries


def write_epochs(disk: Disk, path: str, entries: Sequence[tuple[int, int]], *, durable: bool) -> None:
    """Replace a leader-epoch-checkpoint. Raises OSError."""
    disk.replace(path, _text(len(entries), (f"{epoch} {start}" for epoch, start in entries)), durable=durable)


def _text(count: int, lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in (_VERSION, str(count), *lines)).encode()


def _read(disk: Disk, path: str, width: int) -> list[list[str]]:
    try:
        text = disk.read(path).decode()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as problem:
        raise MalformedCheckpoint(f"{path}: {problem}") from problem
    if not text:
        return []
    version, _, rest = text.partition("\n")
    if version.strip() != _VERSION:
        raise MalformedCheckpoint(f"{path}: version {version!r} is unknown")
    count, *lines = rest.rstrip("\n").split("\n")
    rows = [line.split() for line in lines]
    position = len(version) + 1
    if _NUMBER.fullmatch(count.strip()) is None or int(count.strip()) != len(rows):
        raise MalformedCheckpoint(f"{path}: announces {count!r} entries and has {len(rows)}", position)
    position += len(count) + 1
    for line, row in zip(lines, rows, strict=True):
        if len(row) != width or not all(map(_NUMBER.fullmatch, row[width - 2 :])):
            raise MalformedCheckpoint(f"{path}: line {line!r}", position)
        position += len(line.encode()) + 1
    return rows
