"""A frozen cluster with all its data, and running copies of it: each test gets one of its own within some tenths of a second.

    with LocalCluster(brokers=1) as cluster:
        fill(cluster)                       # topics, records, groups, ACLs, open transactions
        frozen = FrozenCluster(cluster)     # its brokers have stopped
        with frozen.fork() as copy:
            use(copy.bootstrap_servers)     # whatever is done here, the next copy knows nothing of it

What a copy is made of:

- The brokers' files, copied by the system; where the file system can, both share their blocks (XFS, Btrfs). Sealed segments of a lone
  broker are linked, because nobody changes them: only a follower cuts what lies before the end of its log.
- Persistent znodes, written in one go below a path of their own (`chroot`) on the ensemble of the frozen cluster, which goes on running:
  to start another ensemble over a copy of its files would take most of a second. So all copies share one ZooKeeper, and a chroot keeps
  them apart: who stops or pauses it does that to all of them, and a copy has no `ensemble` of its own. What is ephemeral the brokers write
  themselves, with the ports of the copy. Notifications are left out: who starts reads everything anyway.
- Brokers that are forked from a process which has imported them and has lived through a short life (`warm_brokers`). Copies of several
  brokers find what an end of all at once leaves: ISRs as they were, and logs to be looked through from their checkpoints on.

Nothing is rewritten but addresses: ids of brokers, topics, producers and of the cluster are those of the original, and so are epochs.
Time goes on while a cluster is frozen: a transaction whose timeout is over by then is aborted in the copy, and members of groups that do
not come back are removed.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafkalite.local.broker_process import BrokerProcess
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.warm_brokers import prepare_practised, start_practised
from zk import paths

_NOTIFICATIONS: Final = (
    paths.CONFIG_CHANGES,
    paths.ISR_CHANGES,
    paths.LOG_DIR_EVENTS,
    paths.ACL_CHANGES,
    paths.ACL_EXTENDED_CHANGES,
    paths.DELEGATION_TOKEN_CHANGES,
)
"""Parents of notifications, which are not copied: their names are numbers that each parent counts."""

_PER_MULTI: Final = 500
"""Znodes that are written in one request, far below ZooKeeper's limit of a megabyte."""


class _Znode(NamedTuple):
    path: str
    data: bytes
    acl: Sequence[Any]


class FrozenCluster:
    """Makes copies. Stops the brokers of a running cluster that has an ensemble of its own, which must outlive it.

    ValueError for a cluster that is secured, partitionable, has `log.dirs` of its own or an ensemble of others.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        if cluster.ensemble is None:
            raise ValueError("a cluster is frozen together with its ensemble; this one runs on another's")
        self._cluster, self._settings = cluster, cluster.twin_settings()
        self._numbers = itertools.count(1)
        prepare_practised()
        self._stop()
        self._directory = Path(tempfile.mkdtemp(prefix="forks-", dir=cluster.directory))
        self._sealed = _sealed_segments([broker.log_dir for broker in cluster.brokers.values()])
        self._facts = cluster.facts()
        self._znodes = self._read("/")

    def _stop(self) -> None:
        """Stop a lone broker cleanly. Several would hand over their leaderships, and leave one alone in sync: they are killed together."""
        running = [broker for broker in self._cluster.brokers.values() if broker.running]
        if len(running) == 1:
            running[0].stop()
        for broker in running:
            broker.pause()
        for broker in running:
            broker.kill()

    def _read(self, path: str) -> list[_Znode]:
        """Return the persistent znodes at and below a path, parents first."""
        client = self._facts.client
        data, stat = client.get(path)
        if stat.ephemeralOwner or path == "/zookeeper" or path.startswith("/fork-"):
            return []
        found = [_Znode(path, data or b"", client.get_acls(path)[0])]
        if path not in _NOTIFICATIONS:
            for name in sorted(client.get_children(path)):
                found += self._read(paths.child(path, name))
        return found

    def fork(self) -> Fork:
        """Return a copy of the cluster, not started: use it in a `with` statement, or `start` and `close` it."""
        name = f"fork-{next(self._numbers)}"
        return Fork(self, name, self._directory / name, f"{self._cluster.zookeeper_connect}/{name}", self._settings)

    def make(self, directory: Path, chroot: str) -> None:
        """Create the files of a copy, and its znodes below a path."""
        for broker in self._cluster.brokers.values():
            shutil.copytree(broker.log_dir, directory / broker.log_dir.name, copy_function=self._copy)
        client = self._facts.client
        for begin in range(0, len(self._znodes), _PER_MULTI):
            request = client.transaction()
            for each in self._znodes[begin : begin + _PER_MULTI]:
                request.create(f"{chroot}{each.path}".rstrip("/"), each.data, acl=each.acl)
            for result in request.commit():
                if isinstance(result, Exception):
                    raise result

    def _copy(self, source: str, target: str) -> None:
        if source in self._sealed:
            try:
                os.link(source, target)
                return
            except OSError:  # a file system without links
                pass
        _copy(source, target)

    def remove(self, directory: Path, chroot: str) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        self._facts.client.delete(chroot, recursive=True)

    def close(self) -> None:
        """Make no more copies; the cluster itself can be closed then, or started again."""
        self._facts.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> FrozenCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Fork(LocalCluster):
    """A copy of a frozen cluster. Its brokers are killed at its end, and its data is deleted."""

    def __init__(
        self, frozen: FrozenCluster, name: str, directory: Path, zookeeper_connect: str, settings: dict[str, Any]
    ) -> None:
        super().__init__(directory=directory, zookeeper_connect=zookeeper_connect, **settings)
        self._frozen, self._chroot, self._copy = frozen, f"/{name}", directory
        self._is_made = False

    def start(self, tell: Callable[[str], None] = lambda line: None) -> None:
        self._is_made = True
        self._frozen.make(self._copy, self._chroot)
        super().start(tell)

    def close(self, tell: Callable[[str], None] = lambda line: None) -> dict[int, int | None]:
        for broker in self.brokers.values():
            broker.kill()
        unclean = super().close(tell)
        if self._is_made:
            self._is_made = False
            self._frozen.remove(self._copy, self._chroot)
        return unclean

    def _add(self, broker_id: int) -> BrokerProcess:
        broker = super()._add(broker_id)
        broker.start_process = start_practised
        return broker


def _sealed_segments(log_directories: Sequence[Path]) -> frozenset[str]:
    """Return the paths of the files that a lone broker only reads or deletes."""
    if len(log_directories) != 1:
        return frozenset()
    by_partition: dict[Path, list[Path]] = {}
    for path in sorted(log_directories[0].glob("*/*.log")):  # their names are offsets, with zeros before
        by_partition.setdefault(path.parent, []).append(path)
    return frozenset(str(path) for segments in by_partition.values() for path in segments[:-1])


def _copy(source: str, target: str) -> None:
    """Copy a file with its modification time, which retention uses."""
    if not hasattr(os, "copy_file_range"):  # Linux has it
        shutil.copy2(source, target)
        return
    with open(source, "rb") as original, open(target, "wb") as made:
        status = os.fstat(original.fileno())
        left = status.st_size
        while left and (count := os.copy_file_range(original.fileno(), made.fileno(), left)):
            left -= count
    os.utime(target, ns=(status.st_mtime_ns, status.st_mtime_ns))
