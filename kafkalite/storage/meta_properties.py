"""`meta.properties` at the root of a log directory: to which broker of which cluster its logs belong.

Java properties with `version=0`, `broker.id` and `cluster.id`; `#` begins a comment. Kafka in ZooKeeper mode refuses other
versions. A broker never opens a directory that belongs to another broker or cluster.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkalite.storage.disk import Disk

FILE_NAME = "meta.properties"


class WrongDirectory(Exception):
    """The directory belongs to another broker or cluster, or its meta.properties cannot be read: the broker must not start."""


class MetaProperties(NamedTuple):
    """Identity of a directory's owner; None where the file does not say."""

    broker_id: int | None
    cluster_id: str | None


def read_meta_properties(disk: Disk, path: str) -> MetaProperties | None:
    """Return the contents of the file at `path`; None when there is none. Raises OSError, WrongDirectory when it is malformed."""
    try:
        text = disk.read(path).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as problem:
        raise WrongDirectory(f"{path}: {problem}") from problem
    values = {}
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            name, _, value = stripped.partition("=")
            values[name.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    if values.get("version", "0") != "0":
        raise WrongDirectory(f"{path}: version {values['version']} is not for a cluster with ZooKeeper")
    broker_id = values.get("broker.id")
    try:
        return MetaProperties(int(broker_id) if broker_id else None, values.get("cluster.id") or None)
    except ValueError as problem:
        raise WrongDirectory(f"{path}: broker.id={broker_id} is no number") from problem


def write_meta_properties(disk: Disk, path: str, broker_id: int, cluster_id: str) -> None:
    """Write the file, durably. Raises OSError."""
    disk.replace(path, f"#\nbroker.id={broker_id}\ncluster.id={cluster_id}\nversion=0\n".encode())
