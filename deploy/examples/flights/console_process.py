"""The console of the demo's cluster, served from the start until the demo is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from kafkalite.cli.console.command import DEFAULT_PORT
from kafkalite.cli.output import fail, flush, write_line
from kafkalite.local.ports import is_free
from zk.servers.ensemble import end_with_parent


class ConsoleProcess:
    """A process of `kafkalite console`, which ends with the demo. A console that does not start ends the demo."""

    def __init__(self, bootstrap_servers: str, zookeeper_connect: str, nights: Path | None, folder: Path) -> None:
        port = DEFAULT_PORT if is_free(DEFAULT_PORT) else 0
        command = [sys.executable, "-m", "kafkalite", "console", "--port", str(port)]
        command += ["-b", bootstrap_servers, "-z", zookeeper_connect, *(("--nights", str(nights)) if nights else ())]
        # Settings of another cluster, such as a login, are not passed on.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKALITE_")}
        self._log_path = folder / "console.log"
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env={**environment, "KAFKALITE_CONFIG": str(folder / "no-contexts")},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # an interrupt is for the demo, which then ends the console
                preexec_fn=end_with_parent(signal.SIGTERM),
            )
        self.address = self._process.stdout.readline().strip() if self._process.stdout is not None else ""
        if not self.address:
            self._fail()
        write_line(f"watch it at {self.address}")
        flush()

    def wait(self) -> None:
        """Wait until the demo is interrupted (Ctrl-C, or SIGTERM)."""
        try:
            write_line(f"all of it is at {self.address} until you interrupt this (Ctrl-C)")
            flush()
            self._process.wait()
        except KeyboardInterrupt:
            return
        self._fail()

    def _fail(self) -> NoReturn:
        log = self._log_path.read_text(errors="replace")
        fail(f"the console ended with status {self._process.wait()}:\n{log}")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
