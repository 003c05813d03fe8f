"""`partition.metadata` in a partition's directory: the id of the topic to which its log belongs (KIP-516).

    version: 0
    topic_id: <22 characters of URL-safe base64>

A topic that was deleted and created again has the same name and another id; by the id a left-over log is recognised.
"""

from __future__ import annotations

from kafkalite.storage.disk import Disk
from kafkalite.types import NO_TOPIC_ID, topic_id_from_text, topic_id_to_text


def read_topic_id(disk: Disk, path: str) -> bytes:
    """Return the topic id in the file at `path`, NO_TOPIC_ID when there is none. Raises OSError, also for a malformed file."""
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
