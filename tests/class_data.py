"""ZooKeeper's classes as Java has parsed them, for the servers that the tests start: each then takes a third less processor time.

`python -m tests.class_data` makes the archive, once for each Java and version of the jars: a server runs and writes it at its end (class
data sharing of Java 13 and later). Servers get it through SERVER_JVMFLAGS; a Java that cannot use it goes on without.
It is kept in `$XDG_CACHE_HOME/kafkalite/class-data` (`~/.cache` without that variable).
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from pathlib import Path
from typing import Final

from zk.kazoo_adapter.kazoo_store import KazooStore
from zk.servers.class_data import FLAGS, archive_folder, archive_path
from zk.servers.ensemble import Ensemble
from zk.servers.server_classes import MissingRequirementError

FOLDER: Final = archive_folder()
TIMEOUT_S: Final = 120


def use_archive() -> None:
    """Servers started from now on by this process and those below it read the archive, if there is one."""
    try:
        path = archive_path()
    except MissingRequirementError:
        return
    if path.exists():
        os.environ.setdefault(FLAGS, f"-XX:SharedArchiveFile={path}")


async def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        draft = Path(scratch, path.name)
        os.environ[FLAGS] = f"-XX:ArchiveClassesAtExit={draft}"
        ensemble = Ensemble(Path(scratch), force_sync=False)
        await ensemble.start(TIMEOUT_S)
        try:
            store = KazooStore(ensemble.connect, session_timeout_s=4)
            await store.start(TIMEOUT_S)
            await store.create("/seen", ephemeral=True)
            await store.close()
            member = ensemble.member(1)
            member.send(signal.SIGTERM)
            assert member.process is not None
            await asyncio.to_thread(member.process.wait, TIMEOUT_S)
        finally:
            await ensemble.stop()
        if draft.exists():
            draft.rename(path)


if __name__ == "__main__":
    wanted = archive_path()
    if not wanted.exists():
        asyncio.run(_make(wanted))
