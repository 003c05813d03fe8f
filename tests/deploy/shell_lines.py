"""Lines of a shell that only call `kafkalite`, run in this process: a tenth of the time that processes would take.

Pipes between `printf`, `echo`, `cat` of a file and `kafkalite`, a `> file` at the end, and comments; whatever else there is in a block
is for a real shell.
"""

from __future__ import annotations

import codecs
import shlex
from pathlib import Path
from typing import Final, Self

from click.testing import CliRunner

from kafkalite.cli.main import main
from kafkalite.cli.output import Exit

_PLAYED: Final = ("printf", "echo", "cat", "kafkalite")
_NOT_HERE: Final = frozenset("&;$`<(){}*?!\\")


class ShellLines:
    """`of` a block's text, None when it needs a shell; `run` runs them, with AssertionError for the first that fails."""

    def __init__(self, lines: list[list[str]]) -> None:
        self._lines = lines

    @classmethod
    def of(cls, text: str) -> Self | None:
        lines = []
        for line in text.splitlines():
            words = _words(line)
            if words is None:
                return None
            if words:
                lines.append(words)
        return cls(lines)

    def run(self, where: str) -> None:
        for words in self._lines:
            _run_line(where, words)


def _words(line: str) -> list[str] | None:
    """Of one line; None when it is for a real shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|>")
    lexer.whitespace_split = True
    words = list(lexer)
    quoted = line.count("'") + line.count('"')
    if not quoted and _NOT_HERE & set(line.partition("#")[0]):
        return None
    programs = [words[0], *(words[at + 1] for at, word in enumerate(words[:-1]) if word == "|")] if words else []
    return words if all(program in _PLAYED for program in programs) else None


def _run_line(where: str, words: list[str]) -> None:
    target = None
    if ">" in words:
        target, words = words[-1], words[: words.index(">")]
    data = b""
    stages: list[list[str]] = [[]]
    for word in words:
        if word == "|":
            stages.append([])
        else:
            stages[-1].append(word)
    for program, *arguments in stages:
        match program:
            case "printf":
                data = codecs.escape_decode(arguments[0].encode())[0]  # type: ignore[attr-defined]
            case "echo":
                data = " ".join(arguments).encode() + b"\n"
            case "cat":
                data = b"".join(Path(name).read_bytes() for name in arguments)
            case _:
                result = CliRunner().invoke(main, arguments, input=data, prog_name="kafkalite")
                if result.exception is not None and not isinstance(result.exception, SystemExit):
                    raise result.exception
                # What doctor finds on this machine is not what is tested.
                is_found = result.exit_code == Exit.CHECK_FAILED and arguments[0] == "doctor"
                assert result.exit_code == 0 or is_found, f"{where}: {shlex.join(words)}: {result.output}"
                data = result.stdout_bytes
    if target is not None:
        Path(target).write_bytes(data)
