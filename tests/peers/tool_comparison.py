"""A tool of Apache Kafka and ours of the same name, given the same to do, must say the same.

Each of the two works on things of its own: `WHO` in an argument, or in a file made by `file`, is another word for each, and put back in
what they print. What differs from run to run (ids, times) is masked; lines that Kafka prints in the order of a hash map are sorted on
request. Of stderr the messages count, not Java's stack frames and log lines.
"""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.peers.face_server import run_ours
from tests.peers.tool_server import Outcome, ToolServer

_WHO: Final = ("jvmone", "pytwoo")
"""Of one length, because tables are as wide as what is in them."""
_FRAMES: Final = re.compile(r"^(\t(at |\.\.\. |\t)|Caused by:|\tSuppressed)")
_LOG_LINE: Final = re.compile(r"^\[20\d\d-|^ ?\((org\.apache\.)?kafka\.|^ \(org\.")
_RETRY_S: Final = 5.0

Mask = Callable[[str], str]


class Comparison:
    """Compares tools against one cluster; files lie in `folder`."""

    def __init__(self, server: ToolServer, servers: str, folder: Path) -> None:
        self.apache, self.servers = server, servers
        self._folder = folder

    def file(self, content: str) -> str:
        """A file for each of the two, with its own word in it; the path has WHO in it."""
        number = len(list(self._folder.iterdir()))
        for who in _WHO:
            (self._folder / f"{who}-{number}").write_text(content.replace("WHO", who))
        return str(self._folder / f"WHO-{number}")

    def for_each(self, name: str, *arguments: str, stdin: str = "") -> None:
        """Let Apache Kafka's tool prepare something for both."""
        for who in _WHO:
            self.apache.run(name, *self._addressed(name, [each.replace("WHO", who) for each in arguments]), stdin=stdin)

    def same(
        self,
        name: str,
        *arguments: str,
        stdin: str = "",
        unordered: bool = False,
        mask: Mask = str,
        settles: bool = False,
        between: Callable[[], object] = lambda: None,
    ) -> str:
        """Both print the same and end alike; what they print. `settles`: ours is asked again for a while until it does.

        `between` waits until what Apache Kafka's tool began is over, where ours would see it.
        """
        apache, ours = _WHO
        words = _WHO if any("WHO" in each for each in arguments) else ("", "")
        expected = self._shown(self._run_apache(name, apache, arguments, stdin), words[0], unordered, mask)
        between()
        deadline = time.monotonic() + (_RETRY_S if settles else 0)
        while True:
            found = self._shown(self._run_ours(name, ours, arguments, stdin), words[1], unordered, mask)
            if found == expected or time.monotonic() >= deadline:
                break
            expected = self._shown(self._run_apache(name, apache, arguments, stdin), words[0], unordered, mask)
        if found != expected:
            lines = difflib.unified_diff(expected.splitlines(), found.splitlines(), "Apache Kafka", "ours", lineterm="")
            raise AssertionError("\n".join([f"{name} {' '.join(arguments)}", *lines]))
        return expected

    def _run_apache(self, name: str, who: str, arguments: Sequence[str], stdin: str) -> Outcome:
        return self.apache.run(name, *self._given(name, who, arguments), stdin=stdin)

    def _run_ours(self, name: str, who: str, arguments: Sequence[str], stdin: str) -> Outcome:
        given = self._given(name, who, arguments)
        return run_ours(name, *(given[1:] if name == "zookeeper-shell" else given), stdin=stdin)

    def _given(self, name: str, who: str, arguments: Sequence[str]) -> list[str]:
        return self._addressed(name, [each.replace("WHO", who) for each in arguments])

    def _addressed(self, name: str, arguments: Sequence[str]) -> list[str]:
        """`@` stands for the option that says where the cluster is."""
        given = [
            part for each in arguments for part in (["--bootstrap-server", self.servers] if each == "@" else [each])
        ]
        return ["-server", *given] if name == "zookeeper-shell" else given

    def _shown(self, outcome: Outcome, who: str, unordered: bool, mask: Mask) -> str:
        """`who` is the word that stands for WHO; none where both look at the same things."""
        stdout = [_masked(line, who) for line in outcome.stdout.split("\n") if not _FRAMES.match(line)]
        stderr = [
            _masked(line, who).rstrip()
            for line in outcome.stderr.splitlines()
            if line.strip() and not _FRAMES.match(line) and not _LOG_LINE.match(line)
        ]
        stdout = sorted(stdout) if unordered else stdout
        text = "\n".join([*stdout, "--- stderr", *stderr, f"--- exit {outcome.status}"])
        return mask(text)


def _masked(line: str, who: str) -> str:
    return re.sub(r"TopicId: [\w-]{22}", "TopicId: ID", line.replace(who, "WHO") if who else line)
