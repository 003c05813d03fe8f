"""Log directories that brokers from before record batches left, recorded by `tests.peers.vectors.record_old_logs`; and what is in them."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Final

from kafkalite.testing.archives import extract_all

FORMATS: Final = {"0.9": 0, "0.10.2": 1}
"""The magic of all messages, by the brokers' release."""
CODECS: Final = ("none", "gzip", "snappy", "lz4")
"""Each is a topic with one partition, of message sets of ten messages or fewer."""
RECORDS: Final = 40
_FIRST_TIMESTAMP: Final = 1_480_000_000_000


def unpack(release: str, directory: Path) -> Path:
    """The log directory of a broker of that release, below `directory`."""
    target = directory / release
    with tarfile.open(Path(__file__).with_name(f"{release}.tar.xz")) as packed:
        extract_all(packed, target)
    return target


def timestamp(release: str, number: int) -> int:
    """Of the record at that offset, in ms."""
    return _FIRST_TIMESTAMP + 1000 * number if FORMATS[release] else -1


def contents(release: str, topic: str) -> list[tuple[int, int, bytes, bytes | None]]:
    """(offset, timestamp, key, value) of a topic's records."""
    values = [*(f"{topic}-{number}".encode() for number in range(RECORDS - 1)), None]
    return [
        (number, timestamp(release, number), b"key-%d" % (number % 8), value) for number, value in enumerate(values)
    ]
