"""A broker whose disk fails or is slow and whose clock is wrong, whenever a test says so: `shim.c`, loaded before its libraries.

shim = Shim(folder)
shim.load_into(cluster.broker(1))     # from its next start on
shim.set(sync_errno=errno.EIO, path=".log")
"""

from __future__ import annotations

import mmap
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from kafkalite.local.broker_process import BROKER_COMMAND, BrokerProcess
from tests.conftest import foreign_program

_SOURCE: Final = Path(__file__).with_name("shim.c")
_LAYOUT: Final = struct.Struct("6i2q216s")
_FIELDS: Final = (
    "write_errno",
    "read_errno",
    "sync_errno",
    "write_delay_us",
    "sync_delay_us",
    "short_writes",
    "clock_offset_ms",
    "strikes",
    "path",
)


class Shim:
    """Compiled in `folder`. The fields are those of `struct control`."""

    def __init__(self, folder: Path) -> None:
        self._library = folder / "shim.so"
        compiler = foreign_program("cc", "gcc")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", self._library, _SOURCE, "-ldl"], check=True)
        self._control = folder / "shim.control"
        self._control.write_bytes(bytes(_LAYOUT.size))
        with self._control.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _LAYOUT.size)

    def load_into(self, broker: BrokerProcess) -> None:
        """From its next start on; it is started by itself then, since libraries are loaded into a new process only."""
        variables = [f"LD_PRELOAD={self._library}", f"SHIM_CONTROL={self._control}"]
        broker.command = ["env", *variables, sys.executable, *BROKER_COMMAND[1:]]

    def set(self, **fields: Any) -> None:
        """These from now on, the others as nothing were wrong."""
        values = dict.fromkeys(_FIELDS, 0) | {"path": "", "strikes": self.strikes} | fields
        values["path"] = str(values["path"]).encode()
        self._memory[:] = _LAYOUT.pack(*(values[name] for name in _FIELDS))

    @property
    def strikes(self) -> int:
        """How many calls failed or were slowed down."""
        return int(_LAYOUT.unpack(self._memory[:])[_FIELDS.index("strikes")])
