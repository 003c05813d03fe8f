"""The console over the demo's cluster, until somebody interrupts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from kafkalite.cli.output import fail, flush, write_line


def show_console(bootstrap_servers: str, zookeeper_connect: str, nights: Path | None, folder: Path) -> None:
    """Serve it as a process of its own, say where, and wait for Ctrl-C. Ends the command when it cannot be served."""
    from kafkalite.cli.console import DEFAULT_PORT
    from kafkalite.local.ports import is_free
    from zk.ensemble import end_with_parent

    port = DEFAULT_PORT if is_free(DEFAULT_PORT) else 0
    command = [sys.executable, "-m", "kafkalite", "console", "--port", str(port)]
    command += ["-b", bootstrap_servers, "-z", zookeeper_connect, *(("--nights", str(nights)) if nights else ())]
    # What is set for another cluster, such as a login, is not for this one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKALITE_")}
    log_path = folder / "console.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
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
    try:
        address = process.stdout.readline().strip() if process.stdout else ""
        if address:
            write_line(f"all of it is at {address} until you interrupt this (Ctrl-C)")
            flush()
        status = process.wait()
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
    else:
        fail(f"the console ended with status {status}:\n{log_path.read_text(errors='replace')}")
