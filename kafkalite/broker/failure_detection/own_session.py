"""The ZooKeeper session of this broker in its session file, and the end of the session of the process before it.

A broker that starts holds the locks of its log directories, so the process that wrote a session file there is dead: certain evidence. Its
session is ended before this broker registers, which would otherwise wait until it times out (`zk.broker_registrar`, case 3).
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from kafkalite.broker.failure_detection.detection_settings import DetectionMode, read_detection_settings
from kafkalite.broker.failure_detection.failure_detection import Outcome
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.live import Current
from kafkalite.storage.directories.log_store import LogStore
from kafkalite.storage.session_file import (
    SessionRecord,
    read_session_files,
    remove_session_files,
    write_session_file,
)
from kafkalite.types import BrokerId
from zk import paths
from zk.store import SessionEnding, SessionExpiredError, SessionState, Store, StoreError

logger = logging.getLogger("kafkalite.broker.failure_detection")

_ENDING_TIMEOUT_S: Final = 5.0
"""Limit for the end of a predecessor's session; its timeout is waited for afterwards."""


class OwnSession:
    """Keeps the session file of one broker, and ends the session that it finds there at the start."""

    def __init__(self, config: Current[BrokerConfig], logs: LogStore, store: Store) -> None:
        self._config, self._logs, self._store = config, logs, store
        self.outcomes: Counter[Outcome] = Counter()
        """What became of the sessions of dead predecessors that still held the registration of this broker."""

    @property
    def _mode(self) -> DetectionMode:
        return read_detection_settings(self._config.current).mode

    async def end_predecessor(self, broker_id: BrokerId) -> None:
        """End the session of the process that was killed over the log directories, which are locked; in mode `observe` only log it.

        Returns also when that fails. Raises SessionExpiredError, after which it is to be called again.
        """
        directories = self._logs.online_directories
        if self._mode is not DetectionMode.SESSION:
            for record in read_session_files(directories):
                if (record.broker_id, record.zookeeper_connect) == (broker_id, self._config.current.zookeeper_connect):
                    await self._end(record)
        remove_session_files(directories)

    async def _end(self, record: SessionRecord) -> None:
        path = paths.broker(record.broker_id)
        try:
            stat = await self._store.exists(path)
            if stat is None or stat.ephemeral_owner != record.session_id:
                return  # it is over
            if self._mode is DetectionMode.OBSERVE:
                self.outcomes[Outcome.RIGHT] += 1
                logger.info("%s is held by %r, whose process is dead; mode evidence would end it", path, record)
                return
            ending = await self._store.end_session(record.session_id, record.password, _ENDING_TIMEOUT_S)
        except SessionExpiredError:
            raise
        except StoreError as problem:
            self.outcomes[Outcome.FAILED] += 1
            logger.warning("%r, whose process is dead, was not ended: %s", record, problem)
            return
        if ending is SessionEnding.ENDED:
            self.outcomes[Outcome.ENDED] += 1
            logger.info("ended %r, whose process is dead", record)
        else:
            self.outcomes[Outcome.OVER] += 1
            logger.warning("ZooKeeper refused to end %r, whose process is dead; it may be over", record)

    def write(self, broker_id: BrokerId) -> None:
        """Write the present session down, before the broker registers under it; not in mode `session`."""
        if self._mode is not DetectionMode.SESSION:
            connect, store = self._config.current.zookeeper_connect, self._store
            record = SessionRecord(broker_id, connect, store.session_id, store.session_password)
            write_session_file(self._logs.online_directories, record)

    async def close(self) -> None:
        """Close the session with ZooKeeper, and remove the file when ZooKeeper has heard of it."""
        was_connected = self._store.state is SessionState.CONNECTED
        await self._store.close()
        if was_connected and self._mode is not DetectionMode.SESSION:
            remove_session_files(self._logs.online_directories, self._store.session_id)
