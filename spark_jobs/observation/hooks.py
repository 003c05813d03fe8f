"""Commands that are run when a run has ended. They get what became of it, and change nothing in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from typing import Final

from spark_jobs.observation.run_summary import RunSummary

PREFIX: Final = "KAFKALITE_RUN_"

_STDERR: Final = 2

Tell = Callable[[str], None]


def variables_of(run: RunSummary) -> dict[str, str]:
    """Return the environment variables of a hook."""
    document = run.to_json()
    found = {
        "COMMAND": run.command,
        "RESULT": document["result"],
        "EXIT_CODE": str(run.code),
        "ERROR": run.problem,
        "OUTPUT": run.output,
        "TOPICS": " ".join(run.topics),
        "DATES": " ".join(run.dates),
        "REPORT": run.page or "",
    }
    return {f"{PREFIX}{name}": text.replace("\0", "") for name, text in found.items()}


def run_hook(command: str, run: RunSummary, timeout_s: float, tell: Tell) -> None:
    """Run a command of the shell: the run is in its variables, and on its stdin as JSON. What it prints goes to stderr.

    After `timeout_s` it is killed with all that it has started. What goes wrong is told.
    """
    document = json.dumps(run.to_json()).encode() + b"\n"
    try:
        process = subprocess.Popen(
            command,
            shell=True,
            stdin=subprocess.PIPE,
            stdout=_STDERR,
            env={**os.environ, **variables_of(run)},
            start_new_session=True,
        )
    except (OSError, ValueError) as problem:
        tell(f"warning: the hook {command!r} was not started: {problem}")
        return
    with process:
        try:
            process.communicate(document, timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            tell(f"warning: the hook {command!r} was killed: it took more than {timeout_s:g} s (--hook-timeout)")
            return
    if process.returncode:
        tell(f"warning: the hook {command!r} ended with exit code {process.returncode}")
