"""Records the log directories that brokers from before record batches leave: `python -m tests.peers.vectors.record_old_logs`.

One broker of 0.9 (format 0) and one of 0.10.2 (format 1), each with a topic for every codec. The directories go into
tests/unit/storage/old_logs, packed.
"""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kafkalite.local.cluster import LocalCluster
from kafkalite.local.ports import ReservedPort
from tests.peers import old_brokers

FOLDER: Final = Path(__file__).parents[2] / "unit" / "storage" / "old_logs"
CODECS: Final = ("none", "gzip", "snappy", "lz4")
RECORDS: Final = 40
SETTINGS: Final = {
    "num.partitions": "1",
    "default.replication.factor": "1",
    "log.index.interval.bytes": "300",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "log.cleaner.enable": "false",
    "log.cleaner.dedupe.buffer.size": "2000000",
}


def settings_for(directory: Path, zookeeper_connect: str, port: int) -> dict[str, str]:
    """Of the broker whose log directory is `logs` below that directory."""
    return SETTINGS | {
        "broker.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(directory / "logs"),
        "zookeeper.connect": zookeeper_connect,
    }


def fill(
    version: str,
    directory: Path,
    zookeeper_connect: str,
    port: int,
    then: Callable[[], None] = lambda: None,
    more: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Let a broker of that release run with `more` settings, its client produce into it, and `then` do something more."""
    source = Path(__file__).with_name("OldRecords.java")
    topics = [each for codec in CODECS for each in (codec, codec, str(RECORDS))]
    with old_brokers.running(version, directory, {**settings_for(directory, zookeeper_connect, port), **more}):
        command = old_brokers.java(version, str(source), f"127.0.0.1:{port}", *topics)
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        then()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for version, name in ((old_brokers.OLDEST, "0.9"), (old_brokers.WITH_TIMESTAMPS, "0.10.2")):
        with tempfile.TemporaryDirectory() as scratch, LocalCluster(brokers=0) as cluster:
            directory, port = Path(scratch), ReservedPort()
            fill(version, directory, cluster.zookeeper_connect, port.number)
            port.release()
            with tarfile.open(FOLDER / f"{name}.tar.xz", "w:xz") as packed:
                for path in sorted((directory / "logs").rglob("*")):
                    packed.add(path, str(path.relative_to(directory / "logs")), recursive=False, filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
