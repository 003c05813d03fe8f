"""Carries out the replacement of one broker, act by act, each noted in the journal before and behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from kafkalite.cli.migrate.evidence import AFTER_FILE, BEFORE_FILE, IncompleteEvidenceError, read_sealed
from kafkalite.cli.migrate.journal import Journal
from kafkalite.cli.migrate.sequence import Act, Entry, Replacement, list_acts_left
from kafkalite.cli.migrate.survey import Side

_POLL_S: Final = 0.5


class RefusedError(Exception):
    """Raised when a check or the auditor found problems; nothing goes on."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class NotYetError(Exception):
    """Raised when the time was up; the same command goes on from there."""


class World(Protocol):
    """What acts are done to. Every method may raise what ends the command."""

    def find_problems(self, target: Side) -> Sequence[str]:
        """Return what stands against replacing a broker now."""

    def take_evidence(self, directory: Path, *, is_first: bool) -> None:
        """Write what can be read now."""

    def audit_evidence(self, directory: Path) -> Sequence[str]:
        """Return what the auditor found."""

    def is_registered(self, broker: int) -> bool: ...

    def run_command(self, command: str, broker: int) -> None:
        """Run a command of the operator. Raises OSError when it fails."""

    def find_unsettled(self, broker: int, target: Side) -> str:
        """Return why the broker is not yet one of the target side in a healthy cluster; empty when it is."""

    def elect_preferred_leaders(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Orders:
    """How a broker is replaced. A way back is not checked (`is_checked`), because it may be what ends the problems."""

    stop_command: str
    start_command: str
    evidence: Path
    wait_s: float
    is_checked: bool = True
    has_evidence: bool = True

    def evidence_of(self, replacement: Replacement) -> Path:
        """Return the directory of one replacement's evidence."""
        return self.evidence / f"{replacement.number:02}-broker-{replacement.broker}-to-{replacement.target}"


class Replacing:
    """The acts of one replacement."""

    def __init__(
        self, world: World, journal: Journal, replacement: Replacement, orders: Orders, tell: Callable[[str], None]
    ) -> None:
        self._world, self._journal, self._orders, self._tell = world, journal, orders, tell
        self._replacement = replacement
        self._directory = orders.evidence_of(replacement)

    def run(self) -> None:
        """Do the acts that are left. Raises RefusedError, NotYetError, IncompleteEvidenceError, OSError and what the world raises."""
        acts = {
            Act.CHECK: self._check,
            Act.TAKE_BEFORE: lambda: self._take_evidence(is_first=True),
            Act.STOP: self._stop,
            Act.START: self._start,
            Act.SETTLE: self._settle,
            Act.ELECT: self._world.elect_preferred_leaders,
            Act.VERIFY: self._verify,
        }
        for act in list_acts_left(self._journal.entries, self._replacement):
            self._tell(f"broker {self._replacement.broker}: {act}")
            self._journal.write(Entry(self._replacement, act, is_done=False))
            acts[act]()
            self._journal.write(Entry(self._replacement, act, is_done=True))

    def _check(self) -> None:
        if self._orders.is_checked and (problems := self._world.find_problems(self._replacement.target)):
            raise RefusedError(problems)

    def _take_evidence(self, *, is_first: bool) -> None:
        if not self._orders.has_evidence:
            self._tell("no evidence is taken: nothing will be proven of this replacement")
            return
        path = self._directory / (BEFORE_FILE if is_first else AFTER_FILE)
        try:
            read_sealed(path)
        except FileNotFoundError:
            self._world.take_evidence(self._directory, is_first=is_first)
        except IncompleteEvidenceError:  # an earlier process was killed while it wrote this
            path.unlink()
            self._world.take_evidence(self._directory, is_first=is_first)

    def _stop(self) -> None:
        self._world.run_command(self._orders.stop_command, self._replacement.broker)
        broker = self._replacement.broker
        self._wait(lambda: f"broker {broker} is still registered" if self._world.is_registered(broker) else "")

    def _start(self) -> None:
        broker = self._replacement.broker
        if not self._world.is_registered(broker):
            self._world.run_command(self._orders.start_command, broker)
        self._wait(lambda: "" if self._world.is_registered(broker) else f"broker {broker} has not registered")

    def _settle(self) -> None:
        self._wait(lambda: self._world.find_unsettled(self._replacement.broker, self._replacement.target))

    def _verify(self) -> None:
        if self._orders.has_evidence:
            self._take_evidence(is_first=False)
            if problems := self._world.audit_evidence(self._directory):
                raise RefusedError(problems)

    def _wait(self, find_reason: Callable[[], str]) -> None:
        deadline_s = time.monotonic() + self._orders.wait_s
        while reason := find_reason():
            if time.monotonic() > deadline_s:
                raise NotYetError(reason)
            time.sleep(_POLL_S)
