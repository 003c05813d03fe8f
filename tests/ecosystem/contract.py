"""What a program of the field is: a module below `programs/` with a `PROGRAM`: where it comes from, and what is tried with it.

`setup` fetches it with the package manager of its registry (`environments`), `show` runs it on a cluster and raises `Failed` or
AssertionError when it does not do what it should. What is written for it to run, in its own language, lies below `apps/`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, ConsumerGroupState, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.museum.stage import Stage
from zk.servers.ensemble import end_with_parent

HERE: Final = Path(__file__).parent
TIMEOUT_S: Final = 120
_LOOK_S: Final = 0.1
_TAIL: Final = 1500


class Failed(Exception):
    """A program ended, or did not do in time what was waited for; the message ends with what it said last."""


@dataclass(frozen=True)
class Environment:
    """Where a program was installed: words that begin a command line with it, and variables that it needs."""

    folder: Path
    command: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


class Running:
    """A process in the background, which ends with this one at the latest; what it prints is in a file."""

    def __init__(self, command: Sequence[str], variables: Mapping[str, str], folder: Path, name: str) -> None:
        self._log = folder / f"{name}.log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                list(command),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | dict(variables),
                start_new_session=True,
                preexec_fn=end_with_parent(),
            )

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def until(self, condition: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
        """Failed when the process ends before, or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            ended = self.process.poll()
            if ended is not None or time.monotonic() > deadline:
                why = "not in time" if ended is None else f"it ended with status {ended}"
                raise Failed(f"{what}: {why}: {self.said[-_TAIL:]}")
            time.sleep(_LOOK_S)

    def wait(self, timeout_s: float = TIMEOUT_S) -> str:
        """Until it ends; what it said. Failed for another status than 0."""
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise Failed(f"it does not end: {self.said[-_TAIL:]}") from None
        if status:
            raise Failed(f"it ended with status {status}: {self.said[-_TAIL:]}")
        return self.said

    def stop(self, timeout_s: float = 20) -> None:
        """SIGTERM, and SIGKILL to it and its children when that does not help."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                pass
        self.kill()

    def kill(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


@dataclass(frozen=True)
class Scene:
    """A program on a cluster: `folder` is for its files of this time."""

    stage: Stage
    environment: Environment
    folder: Path
    _begun: list[Running] = field(default_factory=list)

    @property
    def servers(self) -> str:
        return self.stage.bootstrap

    def app(self, name: str) -> str:
        """The path of what is written for it."""
        return str(HERE / "apps" / name)

    def start(self, *words: object, name: str = "program", more: Mapping[str, str] | None = None) -> Running:
        """In the background, with words behind those of the environment; it ends with the scene."""
        command = [*self.environment.command, *map(str, words)]
        running = Running(command, dict(self.environment.variables) | dict(more or {}), self.folder, name)
        self._begun.append(running)
        return running

    def run(self, *words: object, more: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> str:
        """To its end; what it said."""
        return self.start(*words, name=f"run-{len(self._begun)}", more=more).wait(timeout_s)

    def compile_java(self, name: str) -> str:
        """Compile what is written for it into `folder`, and return the class path for its main class."""
        jars = ":".join(map(str, self.environment.folder.glob("*.jar")))
        self.run(
            "-m", "jdk.compiler/com.sun.tools.javac.Main", "-parameters", "-cp", jars, "-d", self.folder, self.app(name)
        )
        return f"{self.folder}:{jars}"

    def node_app(self, name: str) -> Path:
        """Copy what is written for it into `folder`, where modules look for packages, and return the copy's path."""
        packages = self.folder / "node_modules"
        if not packages.exists():
            packages.symlink_to(self.environment.folder / "node_modules")
        return Path(shutil.copy(self.app(name), self.folder))

    def is_shared(self, group: str, members: int) -> bool:
        """True if the group is stable with so many members, each of which has a partition."""
        found = self.stage.admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
        shares = [bool(member.assignment.topic_partitions) for member in found.members]
        return found.state is ConsumerGroupState.STABLE and shares == [True] * members

    def has_open_transaction(self, topic: str) -> bool:
        """True if a partition of the topic has records behind its last stable offset."""
        partitions = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in (0, 1)}
        ends = []
        for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
            answers = self.stage.admin.list_offsets(partitions, isolation_level=isolation)
            ends.append({each.partition: answer.result(TIMEOUT_S).offset for each, answer in answers.items()})
        return ends[0] != ends[1]

    def committed_records(self, topic: str) -> list[tuple[str, str]]:
        return committed_records(self.stage, topic)

    def close(self) -> None:
        for running in self._begun:
            running.kill()


def committed_records(stage: Stage, topic: str) -> list[tuple[str, str]]:
    """Keys and values of all that a reader of committed records finds in a topic of two partitions, sorted."""
    settings = {"bootstrap.servers": stage.bootstrap, "group.id": "ecosystem", "enable.partition.eof": True}
    consumer = Consumer(settings | {"isolation.level": "read_committed", "enable.auto.commit": False})
    found, ends = [], set()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    deadline = time.monotonic() + TIMEOUT_S
    while len(ends) < 2 and time.monotonic() < deadline:
        if (record := consumer.poll(1)) is None:
            continue
        if (problem := record.error()) is None:
            found.append(((record.key() or b"").decode(), (record.value() or b"").decode()))
        elif problem.code() == KafkaError._PARTITION_EOF:
            ends.add(record.partition())
    consumer.close()
    return sorted(found)


@dataclass(frozen=True)
class Program:
    """See the module. A `quick` one is part of the tests, the others are shown when they are asked for."""

    title: str
    version: str
    tried: str
    setup: Callable[[], Environment]
    show: Callable[[Scene], None]
    quick: bool = False
    only_ours: bool = False
    """Has nothing to show on another cluster."""
    name: str = ""


def programs() -> list[Program]:
    """All of them, by title."""
    found = []
    for path in (HERE / "programs").glob("*.py"):
        each: Program = import_module(f"tests.ecosystem.programs.{path.stem}").PROGRAM
        found.append(Program(**{**vars(each), "name": path.stem}))
    return sorted(found, key=lambda each: each.title.lower())


@contextmanager
def scene(program: Program, stage: Stage, folder: Path) -> Iterator[Scene]:
    """Whatever was started in it ends with it."""
    opened = Scene(stage, program.setup(), folder)
    try:
        yield opened
    finally:
        opened.close()
