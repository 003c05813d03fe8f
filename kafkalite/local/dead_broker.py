"""Ends the ZooKeeper session of a broker process that somebody saw end, instead of leaving it to its timeout.

The session is that of the session file in the log directories (`kafkalite.storage.session_file`); a clean stop leaves none. It is ended
only while no process holds the lock of that directory, so a broker that could not start because another one runs there does that one no
harm.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.keys import ConfigError
from kafkalite.storage.disk import OsDisk
from kafkalite.storage.log_directory import LogDirectory
from kafkalite.storage.meta_properties import WrongDirectory
from kafkalite.storage.session_file import FILE_NAME, SessionRecord, read_session_files
from kafkalite.zookeeper_connection import store_security
from zk.session_ending import end_session
from zk.store import SessionEnding, StoreError

_TIMEOUT_S: Final = 5.0
_UNSIGNED: Final = (1 << 64) - 1
_FILES: Final = 4
"""More than are open here at once."""


def end_session_of_dead_broker(config: BrokerConfig) -> str | None:
    """End the session that a dead broker left behind, and return a line for people; None where there is none, or in mode `session`.

    In mode `observe` the line says what mode `evidence` would have done. Blocks for some seconds at most, and raises nothing: what goes
    wrong is said in the line, and the session ends at its timeout.
    """
    mode = config.kafkalite_failover_detection
    if mode == "session":
        return None
    record = _find_session(config)
    if record is None:
        return None
    session = f"its ZooKeeper session 0x{record.session_id & _UNSIGNED:x}"
    what = f"broker {record.broker_id} ended without a clean stop; {session}"
    if mode == "observe":
        return f"{what} is left to its timeout, which mode evidence would not do"
    try:
        ending = end_session(
            record.zookeeper_connect, record.session_id, record.password, store_security(config), _TIMEOUT_S
        )
    except (StoreError, ConfigError) as problem:
        return f"{what} ends at its timeout: {problem}"
    return f"{what} {'was ended' if ending is SessionEnding.ENDED else 'was over already'}"


def _find_session(config: BrokerConfig) -> SessionRecord | None:
    """Return the session in the log directories of a broker, if it is of its ensemble; None while a process has them locked."""
    disk = OsDisk()
    for path in map(os.path.abspath, config.log_dirs):
        directory = LogDirectory(disk, path, _FILES)
        if not disk.exists(directory.file(FILE_NAME)):
            continue
        with _lock_of(directory) as is_locked:
            found = read_session_files([directory]) if is_locked else []
        for record in found:
            if record.zookeeper_connect == config.zookeeper_connect and config.broker_id in (-1, record.broker_id):
                return record
    return None


@contextmanager
def _lock_of(directory: LogDirectory) -> Iterator[bool]:
    """Hold the lock of a directory, which may be removed meanwhile; False where another process has it, or it cannot be had."""
    try:
        directory.open(create=False)
    except (WrongDirectory, OSError):
        yield False
        return
    try:
        yield True
    finally:
        directory.close()
