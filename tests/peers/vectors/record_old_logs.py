"""Records the log directories that brokers from before record batches leave: `python -m tests.peers.vectors.record_old_logs`.

One broker of 0.9 (format 0) and one of 0.10.2 (format 1), each with a topic for every codec, one with LogAppendTime, and one that is
compacted. The directories go into tests/unit/storage/old_logs, packed; indexes without what was allotted in advance.
"""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from pathlib import Path
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
    "log.cleaner.enable": "false",
    "log.cleaner.dedupe.buffer.size": "2000000",
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for version, name in ((old_brokers.OLDEST, "0.9"), (old_brokers.WITH_TIMESTAMPS, "0.10.2")):
        with tempfile.TemporaryDirectory() as scratch, LocalCluster(brokers=0) as cluster:
            directory = Path(scratch)
            port = ReservedPort()
            address = f"127.0.0.1:{port.number}"
            settings = SETTINGS | {
                "broker.id": "1",
                "listeners": f"PLAINTEXT://{address}",
                "log.dirs": str(directory / "logs"),
                "zookeeper.connect": cluster.zookeeper_connect,
            }
            topics = [(codec, codec, str(RECORDS)) for codec in CODECS]
            with old_brokers.running(version, directory, settings):
                source = Path(__file__).with_name("OldRecords.java")
                arguments = [each for topic in topics for each in topic]
                command = old_brokers.java(version, str(source), address, *arguments)
                subprocess.run(command, check=True, timeout=300)
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
