"""A broker that notes when records pass: `python -m tests.bench.stamping_broker FOLDER --config PROPERTIES`.

For each partition of the topic `paced` it notes up to which offset records were appended as a leader or as a follower, and up to which they
were committed, and when (CLOCK_MONOTONIC, which all processes of a machine share). At SIGUSR2 it writes that to `FOLDER/<pid>.stamps`:
doubles, four for each stamp, of a `Station`, a partition, the offset behind the last record, and seconds.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

from kafkalite.cli.main import main
from kafkalite.local.broker_process import BrokerProcess, wait_until
from kafkalite.storage.log.partition_log import PartitionLog

TOPIC: Final = "paced"
_TIMEOUT_S: Final = 60.0


class Station(IntEnum):
    """What a record reaches in a broker."""

    LEADER = 0
    FOLLOWER = 1
    COMMITTED = 2


METHODS: Final = {
    "append_plain": Station.LEADER,
    "append_as_leader": Station.LEADER,
    "append_as_follower": Station.FOLLOWER,
    "set_high_watermark": Station.COMMITTED,
}


def command(folder: Path) -> tuple[str, ...]:
    """Return the command of a broker, to which the path of its properties file is appended."""
    return (sys.executable, "-m", "tests.bench.stamping_broker", str(folder), "--config")


def path_of(folder: Path, pid: int) -> Path:
    """Return where a broker writes its stamps."""
    return folder / f"{pid}.stamps"


def read_doubles(path: Path) -> array[float]:
    """Return the doubles of a file."""
    found = array("d")
    found.frombytes(path.read_bytes())
    return found


def ask_stamps(broker: BrokerProcess, folder: Path) -> array[float]:
    """Let a broker that runs by `command(folder)` write its stamps, once, and return them. Raises BrokerDied, TimeoutError."""
    path = path_of(folder, broker.pid)
    os.kill(broker.pid, signal.SIGUSR2)

    def is_written() -> bool:
        broker.check_running()
        return path.exists()

    wait_until(is_written, f"the stamps of broker {broker.id}", _TIMEOUT_S)
    return read_doubles(path)


def stamping(method: Callable[..., Any], station: Station, stamps: array[float]) -> Callable[..., Any]:
    """Return the method of a log, which notes where the log is after each call."""
    is_committed, extend, now = station is Station.COMMITTED, stamps.extend, time.monotonic

    def call(log: PartitionLog, *arguments: Any, **named: Any) -> Any:
        result = method(log, *arguments, **named)
        topic, partition = log.topic_partition
        if topic == TOPIC:
            extend((station, partition, log.high_watermark if is_committed else log.log_end_offset, now()))
        return result

    return call


def run(arguments: Sequence[str]) -> None:
    stamps = array("d")
    for name, station in METHODS.items():
        setattr(PartitionLog, name, stamping(getattr(PartitionLog, name), station, stamps))

    def write(*_: object) -> None:
        path = path_of(Path(arguments[0]), os.getpid())
        with path.with_suffix(".part").open("wb") as file:
            stamps.tofile(file)
        path.with_suffix(".part").rename(path)

    signal.signal(signal.SIGUSR2, write)
    sys.argv[1:] = ["broker", *arguments[1:]]
    main()


if __name__ == "__main__":
    run(sys.argv[1:])
