"""A broker that says what is in its memory: `python -m tests.bench.weighed_broker FOLDER --config PROPERTIES`.

At SIGUSR2 it collects all garbage, reads its resident memory, and writes both, with the bytes of its objects by type, to
`FOLDER/<pid>-<n>.json`. A child process adds the objects up, so that the broker's own memory stays as it is.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from kafkalite.cli.main import main
from kafkalite.local.broker_process import BrokerProcess, wait_until

_TIMEOUT_S: Final = 600.0
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def command(folder: Path) -> tuple[str, ...]:
    """Return the command of a broker, to which the path of its properties file is appended."""
    return (sys.executable, "-m", "tests.bench.weighed_broker", str(folder), "--config")


def ask_weight(broker: BrokerProcess, folder: Path, number: int) -> dict[str, Any]:
    """Let a broker that runs by `command(folder)` write its weight, for the `number`th time, and return it.

    Raises BrokerDied, TimeoutError.
    """
    path = folder / f"{broker.pid}-{number}.json"
    os.kill(broker.pid, signal.SIGUSR2)

    def is_written() -> bool:
        broker.check_running()
        return path.exists()

    wait_until(is_written, f"the weight of broker {broker.id}", _TIMEOUT_S)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def bytes_by_type(roots: Iterable[object]) -> Counter[str]:
    """Return the bytes of these objects and of all that they refer to, each once, by type."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    waiting = list(roots)
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            kind = type(each)
            found[f"{kind.__module__}.{kind.__qualname__}"] += sys.getsizeof(each)
            waiting += gc.get_referents(each)
    return found


def resident_bytes() -> int:
    """Return the memory of this process that is in RAM (VmRSS)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


def write_weight(path: Path) -> None:
    """Collect all garbage, also of what was set aside, and write the weight of this process."""
    gc.unfreeze()
    gc.collect()
    resident = resident_bytes()
    child = os.fork()
    if not child:
        try:
            types = bytes_by_type(gc.get_objects())
            part = path.with_suffix(".part")
            part.write_text(json.dumps({"resident": resident, "live": types.total(), "types": types}))
            part.rename(path)
        finally:
            os._exit(0)
    gc.freeze()
    os.waitpid(child, 0)


def weigh_at_signal(folder: Path) -> None:
    """Write the weight of this process at each SIGUSR2."""
    numbers = itertools.count(1)
    signal.signal(signal.SIGUSR2, lambda *_: write_weight(folder / f"{os.getpid()}-{next(numbers)}.json"))


def run(arguments: Sequence[str]) -> None:
    weigh_at_signal(Path(arguments[0]))
    sys.argv[1:] = ["broker", *arguments[1:]]
    main()


if __name__ == "__main__":
    run(sys.argv[1:])
