"""The console over the demo's cluster: from its beginning on, until somebody interrupts the demo."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from kafkalite.cli.output import fail, flush, write_line


class DemoConsole:
    """The process of `kafkalite console`. Ends the command when it cannot be served."""

    def __init__(self, bootstrap_servers: str, zookeeper_connect: str, nights: Path | None, folder: Path) -> None:
        from kafkalite.cli.console import DEFAULT_PORT
        from kafkalite.local.ports import is_free
        from zk.servers.ensemble import end_with_parent

        port = DEFAULT_PORT if is_free(DEFAULT_PORT) else 0
        command = [sys.executable, "-m", "kafkalite", "console", "--port", str(port)]
        command += ["-b", bootstrap_servers, "-z", zookeeper_connect, *(("--nights", str(nights)) if nights else ())]
        # What is set for another cluster, such as a login, is not for this one.
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
        """Until somebody interrupts the demo (Ctrl-C, or SIGTERM)."""
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
