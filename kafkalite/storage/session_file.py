"""`kafkalite-session` in a log directory: the ZooKeeper session of the broker that runs there, for whoever finds the broker dead.

    version=1
    broker.id=1
    zookeeper.connect=zk1:2181,zk2:2181/kafka
    session.id=0x100000f3a2c0001
    session.password=8d1f...                32 hexadecimal digits
    lock=<boot>:<file>                      the lock file of this directory, see `Disk.file_id`

With id and password anybody can end the session, so only the broker's user can read the file. It is in the first directory that works, is
written with every new session before the broker registers, and removed once the session is closed by a clean stop. Apache Kafka, which
looks at directories only, leaves it alone.

A session may be ended by whoever holds the lock that the file names: then no process over this directory lives. The lock says nothing of
a copied directory, nor of a machine that shares the directory with another one, nor after a start of the machine; there `lock` differs, and
the file is ignored.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from kafkalite.storage.log_directory import LOCK, LogDirectory

logger = logging.getLogger(__name__)

FILE_NAME: Final = "kafkalite-session"
_LARGEST_BYTES: Final = 64 * 1024
_UNSIGNED: Final = (1 << 64) - 1
_SIGN: Final = 1 << 63
_FORM: Final = re.compile(
    r"version=1\nbroker\.id=([0-9]{1,10})\nzookeeper\.connect=([^\n]+)\nsession\.id=0x([0-9a-f]{1,16})\n"
    r"session\.password=((?:[0-9a-f]{2}){1,64})\nlock=([^\n]+)\n"
)


class MalformedSessionFile(ValueError):
    """Raised for content that is not of the form above."""


class SessionRecord(NamedTuple):
    """A broker's ZooKeeper session. `session_id` is signed, as `Stat.ephemeral_owner`; the repr leaves the password out."""

    broker_id: int
    zookeeper_connect: str
    session_id: int
    password: bytes

    def __repr__(self) -> str:
        return f"session 0x{self.session_id & _UNSIGNED:x} of broker {self.broker_id}"


def encode(record: SessionRecord, lock_id: str) -> bytes:
    """Return the content of a session file in the directory whose lock file has this id."""
    return (
        f"version=1\nbroker.id={record.broker_id}\nzookeeper.connect={record.zookeeper_connect}\n"
        f"session.id=0x{record.session_id & _UNSIGNED:x}\nsession.password={record.password.hex()}\nlock={lock_id}\n"
    ).encode()


def decode(content: bytes) -> tuple[SessionRecord, str]:
    """Return the session and the id of the lock file. Raises MalformedSessionFile, whose text has nothing of the content."""
    try:
        found = _FORM.fullmatch(content.decode())
    except UnicodeDecodeError:
        found = None
    if found is None or len(content) > _LARGEST_BYTES:
        raise MalformedSessionFile("it is not what a broker writes")
    broker_id, connect, session_id, password, lock_id = found.groups()
    signed_id = (int(session_id, 16) + _SIGN) % (1 << 64) - _SIGN
    return SessionRecord(int(broker_id), connect, signed_id, bytes.fromhex(password)), lock_id


def write_session_file(directories: Iterable[LogDirectory], record: SessionRecord) -> None:
    """Write the file into the first directory that works, for this user only.

    An error of the medium takes a directory offline, as that of a checkpoint does, and the next one is tried; so it is when one is full.
    Without any, and where the system cannot tell one lock file from another, there is no file, and the session ends at its timeout.
    """
    for directory in directories:
        try:
            if not (lock_id := directory.disk.file_id(directory.file(LOCK))):
                continue
            # Not durable: after a power failure the file says nothing.
            directory.disk.replace(
                directory.file(FILE_NAME), encode(record, lock_id), durable=False, only_for_owner=True
            )
        except OSError as problem:
            directory.failure(problem)
            continue
        return


def read_session_files(directories: Iterable[LogDirectory]) -> list[SessionRecord]:
    """Return the sessions of dead processes, by the files in directories that this process has locked.

    A file that cannot be read, is malformed or names another lock is logged and left out.
    """
    found = []
    for directory in directories:
        if not directory.is_locked:
            continue
        path = directory.file(FILE_NAME)
        try:
            content = _read_start(directory, path)
            if content is None:
                continue
            record, lock_id = decode(content)
            if lock_id == directory.disk.file_id(directory.file(LOCK)):
                found.append(record)
            else:
                logger.info("%s is of another machine, or from before its start, or was copied: it is ignored", path)
        except (OSError, MalformedSessionFile) as problem:
            logger.warning("%s is ignored: %s", path, problem)
    return found


def remove_session_files(directories: Iterable[LogDirectory], session_id: int | None = None) -> None:
    """Remove the files, or only those of one session; an error is logged."""
    for directory in directories:
        path = directory.file(FILE_NAME)
        try:
            if session_id is None or _names_session(directory, path, session_id):
                directory.disk.remove(path)
        except OSError as problem:
            logger.warning("%s is left behind: %s", path, problem)


def _names_session(directory: LogDirectory, path: str, session_id: int) -> bool:
    try:
        content = _read_start(directory, path)
        return content is not None and decode(content)[0].session_id == session_id
    except MalformedSessionFile:
        return False


def _read_start(directory: LogDirectory, path: str) -> bytes | None:
    """Return as much of the file as `decode` may need to refuse it; None without a file. Raises OSError."""
    try:
        file = directory.disk.open(path)
    except FileNotFoundError:
        return None
    try:
        return file.read_at(0, _LARGEST_BYTES + 1)
    finally:
        file.close()
