"""Notices that log directories of this broker have failed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zk import paths
from zk.store import Store, StoreError
from zk.znodes import LogDirEvent

if TYPE_CHECKING:
    from kafkalite.broker.replication.replicas import Replicas
    from kafkalite.types import BrokerId

logger = logging.getLogger("kafkalite.broker.replication")


class DirectoryFailures:
    """Drops the partitions of failed directories and notifies the controller (KIP-112)."""

    def __init__(self, broker_id: BrokerId, replicas: Replicas, store: Store) -> None:
        self._broker_id, self._replicas, self._store = broker_id, replicas, store
        self._is_to_be_notified = False

    async def notice(self) -> None:
        """Drop the partitions of directories that have failed since the last call; a notification that failed is repeated."""
        if self._replicas.drop_offline_partitions():
            self._is_to_be_notified = True
        if not self._is_to_be_notified:
            return
        try:
            await self._store.create(
                paths.LOG_DIR_EVENT_PREFIX, LogDirEvent(broker_id=self._broker_id).encode(), sequence=True
            )
        except StoreError as problem:
            logger.warning("the controller is not notified of a failed log directory yet: %s", problem)
        else:
            self._is_to_be_notified = False
