"""Transcripts: sessions at a command line, kept as text files that show what was typed and all that came back.

A transcript is run again and compared as a whole; `pytest --rewrite-goldens` writes what came back instead, for a person to read as a
diff. Only what is typed counts in a file that is run; everything else is its answer:

    # A comment, kept.
    $ kafkalite topic list --internal          the command `kafkalite`, run in this process; its answer follows. One that only reads is
                                               asked again for a while if the file has another answer: a broker may not have heard
    $ printf 'a\\nb\\n' | kafkalite produce t    `printf` and pipes, bytes and all, and at the end `> file`
    > plan.json                                a file, of the lines that begin with |
    | {"partitions": []}
    ~ kafkalite cluster health                 again and again until its exit code is 0; no answer
    & kafkalite cluster watch t                a process beside this one; once it has said something on stderr the next line comes
    ! join                                     the end of that process, and all that it said
    ! kill 103                                 and `start`: brokers of the cluster
    ! until 7 kafkalite cluster health         like ~, for another exit code than 0
    ! read 2                                   once that process has written two lines to stdout, the next line comes
    ! interrupt                                Ctrl-C, and then like join
    ! mask \\d{9,}                             what is masked in the next answer only; its columns are not aligned then

An answer is stdout, indented; then stderr behind `2>`, without progress; then `[exit N]` unless it is 0. `{dir}` stands for the
cluster's directory, `{here}` for the one in which the transcript is run. What differs from run to run is masked by `Masks`, with as many
characters where it can be, so that tables keep their form.
"""

from __future__ import annotations

import codecs
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from click.testing import CliRunner

from kafkalite.cli.main import main
from kafkalite.local.cluster import LocalCluster
from tests.command_tree import command_name

INDENT: Final = "    "
_TYPED: Final = ("$ ", "~ ", "& ", "! ", "# ", "> ", "| ")
_WAIT_S: Final = 30
_AGREEMENT_S: Final = 10
"""How long brokers have to hear of what was changed."""
_OTHER_PROGRAMS: Final = ("spark", "zk run")
"""Commands whose process becomes another program."""
_READING_VERBS: Final = frozenset(["describe", "get", "health", "info", "list", "members", "status", "tree"])
_POLL_S: Final = 0.1


class Answer(NamedTuple):
    """What came back; `stdout` of the last command of a pipe, `stderr` of all."""

    stdout: bytes
    stderr: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Masks:
    """What is written in place of ports, paths, ids and times. Of the same length where a table may have them."""

    fixed: dict[str, str]

    @classmethod
    def of(cls, cluster: LocalCluster) -> Masks:
        assert cluster.ensemble is not None
        ports = {broker.port: f"101{number:02}" for number, broker in enumerate(cluster.brokers.values(), 1)}
        ports |= {member.ports.client: f"102{number:02}" for number, member in enumerate(cluster.ensemble.members, 1)}
        fixed = {f":{port}": f":{shown}" for port, shown in ports.items()}
        fixed |= {f'port": {port}': f'port": {shown}' for port, shown in ports.items()}
        fixed |= {f"  {port}  ": f"  {shown}  " for port, shown in ports.items()}
        fixed |= {f",{port},": f",{shown}," for port, shown in ports.items()}
        return cls({str(cluster.directory): "{dir}".ljust(len(str(cluster.directory)), "."), **fixed})

    def applied(self, text: str) -> str:
        text = text.replace(str(Path.cwd()), "{here}")
        for found, shown in self.fixed.items():
            text = text.replace(found, shown)
        for pattern, shown in _PATTERNS:
            text = pattern.sub(shown, text)
        return text


_PATTERNS: Final = (
    (
        re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
        "<uuid.............................>",
    ),
    (re.compile(r"(?<![\w{.-])(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[\w-]{22}(?![\w}.-])"), "<id.................>"),
    (re.compile(r"20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?"), "<time>"),
    (re.compile(r"(?m)^\d\d:\d\d:\d\d\.\d{3}(?=  )"), "<clock.....>"),
    (re.compile(r"\b1[7-9]\d{11}\b"), "<ms.......>"),
    (re.compile(r'(?<="controller_epoch":)( ?)\d+'), r"\g<1>0"),
    (re.compile(r'(?<="(?:czxid|mzxid)": )\d+'), "0"),
    (re.compile(r'(?<="crc": )\d+'), "0"),
    (re.compile(r'(?<="producer_id": )\d+'), "0"),
)
_PROGRESS = re.compile(r'\{"event": "progress"|[\w ]+: \d+ of \d+$')
"""What is told while a command waits: how much there is of it depends on the machine."""
_COLUMN_GAP: Final = re.compile(r"(?<=\S) {2,}(?=\S)")


@dataclass
class Session:
    """Runs what is typed against a cluster. Bound to the working directory in which it is used."""

    cluster: LocalCluster
    masks: Masks
    _beside: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _heard: Answer = Answer(b"", "", 0)
    """What the process beside has said so far."""
    _mask_once: str | None = None

    def replay(self, text: str, *, patient: bool = True) -> str:
        """A transcript's text with the answers that come now; unless `patient` with the first that come."""
        lines: list[str] = []
        try:
            for typed, recorded in _steps(text):
                shown = self._step(typed, recorded if patient else None)
                lines += [*shown, *([] if typed[0].startswith(("# ", "! mask")) else [""])]
            return "\n".join(lines)
        finally:
            for process in self._beside:
                process.kill()
                process.wait()

    def _step(self, typed: Sequence[str], recorded: Sequence[str] | None) -> list[str]:
        mark, rest = typed[0][:2], typed[0][2:].strip()
        match mark:
            case "# ":
                return list(typed)
            case "> ":
                Path(rest).write_text("".join(line[2:] + "\n" for line in typed[1:]))
                return list(typed)
            case "~ ":
                self._until(0, rest)
                return list(typed)
            case "& ":
                self._start(rest)
                return list(typed)
            case "! ":
                return [*typed, *self._direct(*rest.split(" ", 1))]
            case _:
                mask, self._mask_once = self._mask_once, None
                deadline = time.monotonic() + _AGREEMENT_S
                while True:
                    shown = self._shown(self._run(rest), mask)
                    if recorded in (None, shown) or not _only_reads(rest) or time.monotonic() > deadline:
                        return [*typed, *shown]
                    time.sleep(_POLL_S)

    def _shown(self, answer: Answer, mask: str | None = None) -> list[str]:
        stdout = self.masks.applied(answer.stdout.decode("utf-8", "backslashreplace"))
        if mask is not None:
            stdout = _COLUMN_GAP.sub("  ", re.sub(mask, "<masked>", stdout))
        shown = [(INDENT + line).rstrip() for line in stdout.splitlines()]
        stderr = [line for line in answer.stderr.splitlines() if not _PROGRESS.match(line)]
        shown += [f"2>  {line}".rstrip() for line in self.masks.applied("\n".join(stderr)).splitlines()]
        return [*shown, f"[exit {answer.exit_code}]"] if answer.exit_code else shown

    def _run(self, line: str) -> Answer:
        *stages, last = stages_of(line)
        last, target = (last[: last.index(">")], last[-1]) if ">" in last else (last, None)
        data, stderr, code = b"", "", 0
        for stage in [*stages, last]:
            data, said, code = self._call([part.replace("{dir}", str(self.cluster.directory)) for part in stage], data)
            stderr += said
        if target is not None:
            Path(target).write_bytes(data)
            data = b""
        return Answer(data, stderr, code)

    def _call(self, words: list[str], stdin: bytes) -> Answer:
        if words[0] == "printf":
            return Answer(codecs.escape_decode(words[1].encode())[0], "", 0)  # type: ignore[attr-defined]
        assert words[0] == "kafkalite", words
        if command_name(words[1:]).startswith(_OTHER_PROGRAMS):
            done = subprocess.run([sys.executable, "-m", *words], input=stdin, capture_output=True, timeout=_WAIT_S)
            return Answer(done.stdout, done.stderr.decode(), done.returncode)
        result = CliRunner().invoke(main, words[1:], input=stdin, prog_name="kafkalite")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.stdout_bytes, result.stderr, result.exit_code)

    def _until(self, code: int, line: str) -> None:
        deadline = time.monotonic() + _WAIT_S
        while (answer := self._run(line)).exit_code != code:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{line}: exit code {answer.exit_code} for {_WAIT_S} s: {answer.stderr}")
            time.sleep(_POLL_S)

    def _start(self, line: str) -> None:
        words = [sys.executable, "-m", *shlex.split(line)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ)
        self._beside.append(process)
        assert process.stderr is not None
        self._heard = Answer(b"", _within(process.stderr.readline, line).decode(), 0)

    def _joined(self) -> Answer:
        """All that the process beside said, once it has ended."""
        process = self._beside.pop()
        stdout, stderr = process.communicate(timeout=_WAIT_S)
        return Answer(self._heard.stdout + stdout, self._heard.stderr + stderr.decode(), process.returncode)

    def _direct(self, verb: str, rest: str = "") -> list[str]:
        match verb:
            case "join":
                return self._shown(self._joined())
            case "read":
                stdout = self._beside[-1].stdout
                assert stdout is not None
                lines = b"".join(_within(stdout.readline, "stdout") for _ in range(int(rest)))
                self._heard = self._heard._replace(stdout=self._heard.stdout + lines)
            case "interrupt":
                self._beside[-1].send_signal(signal.SIGINT)
                return self._shown(self._joined())
            case "mask":
                self._mask_once = rest
            case "kill":
                self.cluster.kill(int(rest))
            case "start":
                self.cluster.start_broker(int(rest))
            case "until":
                code, line = rest.split(" ", 1)
                self._until(int(code), line)
            case _:
                raise ValueError(f"there is no ! {verb}")
        return []


def _within(read: Callable[[], bytes], what: str) -> bytes:
    """What `read` returns; TimeoutError when it does not."""
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(read()), daemon=True)
    thread.start()
    thread.join(_WAIT_S)
    if not found:
        raise TimeoutError(f"{what}: nothing for {_WAIT_S} s")
    return found[0]


def _steps(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """What is typed, each with the lines that belong to it, and the answer that the file has."""
    typed: list[str] = []
    answer: list[str] = []
    for line in text.splitlines():
        if not line.startswith(_TYPED):
            answer.append(line)
            continue
        if typed and not line.startswith("| ") and not (line.startswith("# ") and typed[0].startswith("# ")):
            yield typed, answer[:-1] if answer and not answer[-1] else answer
            typed, answer = [], []
        typed.append(line)
    if typed:
        yield typed, answer


def _only_reads(line: str) -> bool:
    """Whether a command line changes nothing, so that it may be asked again."""
    stages = stages_of(line)
    return len(stages) == 1 and not _READING_VERBS.isdisjoint(command_name(stages[0][1:]).split())


def stages_of(line: str) -> list[list[str]]:
    """The words of each command of a pipe."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|>")
    lexer.whitespace_split = True
    stages: list[list[str]] = [[]]
    for word in lexer:
        if word == "|":
            stages.append([])
        else:
            stages[-1].append(word)
    return stages


class Invocation(NamedTuple):
    """A command that a transcript runs: its name, its command line, and whether it failed."""

    name: str
    words: tuple[str, ...]
    failed: bool


def invocations(text: str) -> Iterator[Invocation]:
    """The commands that a transcript runs, whichever way."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not line.startswith(("$ ", "~ ", "& ")):
            continue
        answer = iter(lines[number + 1 :])
        ending = next((each for each in answer if each.startswith((*_TYPED, "[exit "))), "")
        for stage in stages_of(line[2:]):
            if stage[0] == "kafkalite":
                yield Invocation(command_name(stage[1:]), tuple(stage[1:]), ending.startswith("[exit "))
