"""`partition.metadata` in a partition's directory: the id of the topic to which its log belongs (KIP-516).

    version: 0
    topic_id: <22 characters of URL-safe base64>

A topic that was deleted and created again has the same name and another id; by the id a left-over log is recognised.
"""

from __future__ import annotations

import os

from kafkalite.storage.disk import Disk
from kafkalite.storage.flush_work import FlushState
from kafkalite.storage.log_files import PARTITION_METADATA
from kafkalite.types import NO_TOPIC_ID, topic_id_from_text, topic_id_to_text


class TopicIdFile:
    """The file of the log in `directory`. `is_behind`: the topic's id has yet to be written, before the first record."""

    __slots__ = ("_disk", "_flush_state", "_path", "is_behind")

    def __init__(self, disk: Disk, directory: str, flush_state: FlushState) -> None:
        self._disk, self._path, self._flush_state = disk, os.path.join(directory, PARTITION_METADATA), flush_state
        self.is_behind = False

    def save(self, topic_id: bytes) -> None:
        """Raises OSError."""
        write_topic_id(self._disk, self._path, topic_id)
        self._flush_state.note(self._path)
        self.is_behind = False

    def catch_up(self, topic_id: bytes) -> None:
        """Write what was put off. Raises OSError."""
        if self.is_behind:
            self.save(topic_id)


def read_topic_id(disk: Disk, path: str) -> bytes:
    """The topic id in the file at `path`, NO_TOPIC_ID when there is none. Raises OSError, also for a malformed file."""
    try:
        lines = disk.read(path).decode().split("\n")
    except FileNotFoundError:
        return NO_TOPIC_ID
    except UnicodeDecodeError as problem:
        raise OSError(f"{path}: {problem}") from problem
    if lines == [""]:
        return (
            NO_TOPIC_ID  # the machine stopped before the content was on the medium; the controller tells the id again
        )
    values = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    if values.get("version") != "0":
        raise OSError(f"{path}: version {values.get('version')!r} is unknown")
    try:
        return topic_id_from_text(values.get("topic_id", ""))
    except ValueError as problem:
        raise OSError(f"{path}: {problem}") from problem


def write_topic_id(disk: Disk, path: str, topic_id: bytes) -> None:
    """Write the file; it is made durable with the log's next flush. Raises OSError."""
    disk.replace(path, f"version: 0\ntopic_id: {topic_id_to_text(topic_id)}\n".encode(), durable=False)
