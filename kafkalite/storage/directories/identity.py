"""The broker and cluster ids in the `meta.properties` of all log.dirs, which must agree with each other and with the broker."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalite.storage.log_directory import LogDirectory
from kafkalite.storage.meta_properties import FILE_NAME, MetaProperties, WrongDirectory, write_meta_properties


def read_identity(directories: Iterable[LogDirectory]) -> MetaProperties:
    """Return the broker id and the cluster id on which the directories agree, None for what none of them has.

    A directory that cannot be read goes offline. Raises WrongDirectory when they disagree or one cannot be understood.
    """
    broker_id: int | None = None
    cluster_id: str | None = None
    for directory in directories:
        try:
            stored = directory.read_meta_properties()
        except OSError as problem:
            directory.take_offline(problem)
            continue
        if stored is None:
            continue
        if None not in (broker_id, stored.broker_id) and broker_id != stored.broker_id:
            raise WrongDirectory(f"log.dirs belong to brokers {broker_id} and {stored.broker_id}")
        if None not in (cluster_id, stored.cluster_id) and cluster_id != stored.cluster_id:
            raise WrongDirectory(f"log.dirs belong to clusters {cluster_id} and {stored.cluster_id}")
        broker_id = stored.broker_id if broker_id is None else broker_id
        cluster_id = cluster_id or stored.cluster_id
    return MetaProperties(broker_id, cluster_id)


def check_identity(directories: Iterable[LogDirectory], broker_id: int, cluster_id: str) -> None:
    """Raise WrongDirectory when the directories belong to another broker or cluster; their logs need not be open yet."""
    stored = read_identity(directories)
    if stored.broker_id not in (None, broker_id):
        raise WrongDirectory(
            f"the configured broker.id {broker_id} is not {stored.broker_id}, to which log.dirs belong; "
            "correct broker.id or use other directories"
        )
    if stored.cluster_id not in (None, cluster_id):
        raise WrongDirectory(
            f"ZooKeeper has cluster {cluster_id}, but log.dirs belong to cluster {stored.cluster_id}; "
            "correct zookeeper.connect or use other directories"
        )


def claim_directories(directories: Iterable[LogDirectory], broker_id: int, cluster_id: str) -> None:
    """Mark every directory as this broker's of this cluster. Raises WrongDirectory when they belong to another one."""
    directories = list(directories)
    check_identity(directories, broker_id, cluster_id)
    for directory in directories:
        try:
            if directory.read_meta_properties() != (broker_id, cluster_id):
                write_meta_properties(directory.disk, directory.file(FILE_NAME), broker_id, cluster_id)
        except OSError as problem:
            directory.take_offline(problem)
