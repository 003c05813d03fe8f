"""A person at a terminal: bash in tmux, keys that are pressed, and the screen that is read until it shows what it should."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.conftest import foreign_program

PROMPT = "ready> "
_COLUMNS, _LINES = 150, 45
_TIMEOUT_S = 40
_POLL_S = 0.05
_INPUTRC = """\
set bell-style none
set completion-query-items -1
set page-completions off
set enable-bracketed-paste off
"""


def search_path() -> str:
    """Where programs are looked for: first beside this Python, where `kafkalite` is."""
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


class Terminal:
    """Use it as a context manager. `environment` is added to a nearly empty one; `home` gets the files of the shell."""

    def __init__(self, home: Path, environment: dict[str, str]) -> None:
        self._tmux = foreign_program("tmux", "tmux")
        self._socket = home / f"tmux-{uuid.uuid4().hex[:8]}"
        self._begun = 0
        inputrc = home / "inputrc"
        inputrc.write_text(_INPUTRC)
        self._environment = {
            "PATH": search_path(),
            "HOME": str(home),
            "INPUTRC": str(inputrc),
            "PS1": PROMPT,
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm-256color",
            **environment,
        }

    def __enter__(self) -> Self:
        size = ["-x", str(_COLUMNS), "-y", str(_LINES)]
        self._call("-f", "/dev/null", "new-session", "-d", *size, "bash", "--noprofile", "--norc", "-i")
        try:
            self.wait_for(PROMPT)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call("kill-server")

    def _call(self, *arguments: str) -> str:
        command = [self._tmux, "-S", str(self._socket), *arguments]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    def type(self, text: str) -> None:
        self._call("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Keys by tmux's names: Enter, Tab, C-c."""
        self._call("send-keys", *keys)

    def screen(self) -> str:
        """What is to be read now, long lines whole."""
        return self._call("capture-pane", "-p", "-J")

    def wait_for(self, pattern: str, timeout_s: float = _TIMEOUT_S) -> re.Match[str]:
        """Wait until the screen shows the regular expression; AssertionError with the screen when it does not."""
        deadline = time.monotonic() + timeout_s
        while True:
            screen = self.screen()
            found = re.search(pattern, screen, re.MULTILINE)
            if found is not None:
                return found
            assert time.monotonic() < deadline, f"{pattern!r} is not on the screen:\n{screen}"
            time.sleep(_POLL_S)

    def run(self, line: str) -> tuple[str, int]:
        """Clear the screen and run a line to its end: what it showed, and its exit code."""
        self.begin(line)
        return self.finish()

    def begin(self, line: str) -> None:
        """Clear the screen and run a line; `finish` waits for its end."""
        self._begun += 1
        self.press("C-u")
        self.type(f"clear; {line}; echo end {self._begun}: $?")
        self.press("Enter")

    def finish(self) -> tuple[str, int]:
        """What was shown since `begin`, and the exit code."""
        end = self.wait_for(rf"^end {self._begun}: (\d+)$")
        return end.string[: end.start()], int(end[1])

    def write(self, line: str) -> None:
        """A fresh prompt with a line that is not sent yet."""
        self.press("C-u", "C-l")
        self.wait_for(rf"\A{PROMPT}\s*\Z")
        self.type(line)
        self.wait_for(re.escape(line.rstrip()))
