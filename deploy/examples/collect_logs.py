"""Logs collected from many hosts: each ships the lines that are appended to its files, one archive has them by host and file.

    python collect_logs.py ship /var/log/*.log      # on each host; goes on where it was when it is started again
    python collect_logs.py collect archive/         # somewhere: archive/HOST/FILE

The producer is idempotent and waits for all replicas, so no line is repeated or reordered by a broker that fails. A host remembers how far
it has shipped beside each file, once the lines are acknowledged: a shipper that is killed ships some lines again. Each says where it
begins in its file, so the archive, which is as long as what it has of the file, knows those that it has.
"""

from __future__ import annotations

import argparse
import os
import time
import uuid
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from needs import cluster_at

from kafkalite.client import SyncConsumer, SyncProducer

TOPIC = "example-logs"


def ship_once(producer: SyncProducer, host: str, path: Path) -> int:
    """Send the whole lines that were appended since the last time; how many."""
    mark = path.with_name(f".{path.name}.shipped")
    begin = int(mark.read_text()) if mark.exists() else 0
    with path.open("rb") as log:
        log.seek(begin)
        lines = [line for line in log if line.endswith(b"\n")]
    for line in lines:
        headers = [("file", path.name.encode()), ("position", b"%d" % begin)]
        producer.send(TOPIC, line, key=host.encode(), headers=headers)
        begin += len(line)
    producer.flush()
    mark.write_text(str(begin))
    return len(lines)


def ship(servers: str, host: str, paths: Iterable[Path]) -> None:
    """On and on."""
    with SyncProducer(bootstrap_servers=servers, compression_type="lz4", linger_ms=50) as producer:
        while True:
            if not sum(ship_once(producer, host, path) for path in paths):
                time.sleep(1)


def group_of(archive: Path) -> str:
    """The consumer group of an archive: it goes on where it was, and a new one begins at the beginning."""
    mark = archive / ".group"
    if not mark.exists():
        archive.mkdir(parents=True, exist_ok=True)
        mark.write_text(f"example-archive-{uuid.uuid4()}")
    return mark.read_text()


def collect(servers: str, archive: Path, count: int | None = None) -> None:
    """Append `count` lines to the archive; positions are committed when the lines are in their files."""
    with SyncConsumer(
        TOPIC,
        bootstrap_servers=servers,
        group_id=group_of(archive),
        auto_offset_reset="earliest",
        key_deserializer="str",
    ) as consumer:
        for record in islice(consumer, count):
            headers = dict(record.headers)
            # What others send decides about no path outside of the archive.
            host, name = (Path(each).name.lstrip(".") for each in (record.key, (headers["file"] or b"").decode()))
            path = archive / (host or "unknown") / (name or "unknown")
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as log:
                if log.tell() == int(headers["position"] or b"0"):
                    log.write(record.value)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("ship", "collect"))
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--bootstrap-server", default="localhost:9092")
    parser.add_argument("--host", default=os.uname().nodename)
    given = parser.parse_args()
    with cluster_at(given.bootstrap_server, TOPIC):
        if given.what == "ship":
            ship(given.bootstrap_server, given.host, given.paths)
        else:
            collect(given.bootstrap_server, given.paths[0])
