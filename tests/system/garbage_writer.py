"""Somebody who writes garbage into the ZooKeeper of a running cluster, and mends it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kazoo.exceptions import NoNodeError, NotEmptyError

from kafkalite.client import SyncProducer
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.types import NO_BROKER
from tests.simulation.znode_garbage import text
from zk import paths

WAIT_S: Final = 30.0


class GarbageWriter:
    """A context: what it has written is mended at the end. `log_lines` are those that brokers have written since it was made."""

    def __init__(self, cluster: LocalCluster, facts: ClusterFacts) -> None:
        self._cluster, self._facts, self._client = cluster, facts, facts.client
        self._before: dict[str, bytes | None] = {}
        self._logs_begin = {broker.id: broker.log_path.stat().st_size for broker in cluster.brokers.values()}

    def __enter__(self) -> GarbageWriter:
        return self

    def __exit__(self, *problem: object) -> None:
        self.mend()

    def write(self, garbage: Mapping[str, bytes]) -> None:
        """Instead of what is there, which `mend` brings back; brokers are notified of what looks like settings."""
        for path, data in garbage.items():
            self._before[path] = self._client.get(path)[0] if self._client.exists(path) else None
            self._put(path, data)
            if path.startswith(f"{paths.CONFIG}/") and not path.startswith(paths.CONFIG_CHANGES):
                self.notify(path)

    def mend(self) -> None:
        """As it was before."""
        for path, data in self._before.items():
            if data is None:
                self._remove(path)
            else:
                self._put(path, data)
            if path.startswith(f"{paths.CONFIG}/") and not path.startswith(paths.CONFIG_CHANGES):
                self.notify(path)
        self._before.clear()

    def notify(self, path: str) -> None:
        """Tell the brokers that settings changed."""
        self._client.create(paths.CONFIG_CHANGE_PREFIX, notice(path), sequence=True)

    def epoch_that_cannot_be_read(self, data: bytes) -> None:
        """Nobody can take the seat meanwhile; mended, it has grown."""
        epoch = self.epoch()
        self._put(paths.CONTROLLER_EPOCH, data)
        self._remove(paths.CONTROLLER)
        self._before = {paths.CONTROLLER_EPOCH: b"%d" % (epoch + 100)}

    def another_controller(self) -> None:
        """The seat is taken away, and somebody has taken it and finds what is there."""
        epoch = self.epoch()
        self._remove(paths.CONTROLLER)
        self.wait_controller(epoch)

    def wait_controller(self, after_epoch: int) -> None:
        """Until somebody governs in a later epoch."""
        wait_until(lambda: self.epoch() > after_epoch and self._facts.controller() != NO_BROKER, "a controller", WAIT_S)

    def works(self, topic: str) -> None:
        """Records are taken, within a time."""
        with SyncProducer(bootstrap_servers=self._cluster.bootstrap_servers, acks="all") as producer:
            producer.send_and_wait(topic, b"x", partition=0)

    def log_lines(self) -> list[str]:
        lines = []
        for broker in self._cluster.brokers.values():
            with broker.log_path.open("rb") as log:
                log.seek(self._logs_begin[broker.id])
                lines += log.read().decode("utf-8", "replace").splitlines()
        return lines

    def problems(self) -> list[str]:
        """Lines that are warnings or errors, or belong to a traceback."""
        return [each for each in self.log_lines() if re.search(r" (WARNING|ERROR|CRITICAL) |^Traceback", each)]

    def epoch(self) -> int:
        return int(self._client.get(paths.CONTROLLER_EPOCH)[0])

    def _put(self, path: str, data: bytes) -> None:
        try:
            self._client.set(path, data)
        except NoNodeError:
            self._client.create(path, data, makepath=True)

    def _remove(self, path: str) -> None:
        def is_gone() -> bool:
            try:
                self._client.delete(path, recursive=True)
            except NoNodeError:
                return True
            except NotEmptyError:  # a controller makes something of it meanwhile
                return False
            return True

        wait_until(is_gone, f"{path} is gone", WAIT_S)


def notice(path: str) -> bytes:
    """That settings changed, for brokers."""
    return text({"version": 2, "entity_path": path.removeprefix(f"{paths.CONFIG}/")})
