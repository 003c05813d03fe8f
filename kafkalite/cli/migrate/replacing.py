"""Carries out the replacement of one broker, act by act, each noted in the journal before and behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from kafkalite.cli.migrate.evidence import AFTER_FILE, BEFORE_FILE, IncompleteEvidenceError, read_sealed
from kafkalite.cli.migrate.journal import Journal
from kafkalite.cli.migrate.sequence import Act, Entry, Replacement, Target, list_acts_left, name_of

_POLL_S: Final = 0.5
_ABSENT_S: Final = 10.0
"""How long a broker is not registered before it is taken for ended: after a session that has expired it registers again."""


class RefusedError(Exception):
    """Raised when a check or the auditor found problems; nothing goes on."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class NotYetError(Exception):
    """Raised when the time was up; the same command goes on from there."""


class Cluster(Protocol):
    """What acts are done to. Every method may raise what ends the command."""

    def find_foreign(self) -> Sequence[str]:
        """Return in what the cluster is not that of the plan."""

    def find_problems(self, target: Target) -> Sequence[str]:
        """Return what stands against replacing a broker now."""

    def take_evidence(self, directory: Path, *, is_first: bool) -> None:
        """Write what can be read now."""

    def audit_evidence(self, directory: Path) -> Sequence[str]:
        """Return what the auditor found."""

    def is_registered(self, broker: int) -> bool: ...

    def find_side(self, broker: int) -> Target | None:
        """Return of which side a broker, or of which form a server, is by what it answers; None when it does not answer."""

    def find_unheld(self, broker: int) -> Sequence[str]:
        """Return which settings a broker has otherwise than the plan holds them."""

    def run_command(self, command: str, broker: int) -> None:
        """Run a command of the operator. Raises OSError when it fails."""

    def find_unsettled(self, broker: int, target: Target) -> str:
        """Return why the broker is not yet one of the target side in a healthy cluster; empty when it is."""

    def elect_preferred_leaders(self) -> None: ...


@dataclass(frozen=True, slots=True)
class StepOptions:
    """How a broker is replaced. A rollback is not checked (`is_checked`), because it may be what ends the problems."""

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
        self,
        cluster: Cluster,
        journal: Journal,
        replacement: Replacement,
        options: StepOptions,
        tell: Callable[[str], None],
        noun: str = "broker",
    ) -> None:
        self._cluster, self._journal, self._options, self._tell = cluster, journal, options, tell
        self._replacement, self._name = replacement, f"{noun} {replacement.broker}"
        self._directory = options.evidence_of(replacement)

    def run(self) -> None:
        """Do the acts that are left. Raises RefusedError, NotYetError, IncompleteEvidenceError, OSError and what the cluster raises.

        The check is made again when a run is resumed, and right before the stop: what it found may be hours old.
        """
        acts = {
            Act.CHECK: self._check,
            Act.TAKE_BEFORE: lambda: self._take_evidence(is_first=True),
            Act.STOP: self._stop,
            Act.START: self._start,
            Act.SETTLE: self._settle,
            Act.ELECT: self._cluster.elect_preferred_leaders,
            Act.VERIFY: self._verify,
        }
        if problems := self._cluster.find_foreign():
            raise RefusedError(problems)
        left = list_acts_left(self._journal.entries, self._replacement)
        if left and left[0] is Act.TAKE_BEFORE:
            self._check()
        for act in left:
            self._prepare(act, was_begun=Entry(self._replacement, act, False) in self._journal.entries)
            self._tell(f"{self._name}: {act}")
            self._journal.write(Entry(self._replacement, act, is_done=False))
            acts[act]()
            self._journal.write(Entry(self._replacement, act, is_done=True))

    def _prepare(self, act: Act, *, was_begun: bool) -> None:
        """Refuse an act before the journal has it as begun."""
        if act is Act.STOP and was_begun:
            self._check_again()
        elif act is Act.STOP:
            self._check()
        elif not was_begun and self._options.has_evidence:
            self._refuse_old_evidence(act)

    def _refuse_old_evidence(self, act: Act) -> None:
        """Refuse files that this replacement cannot have written: they show another time, or another cluster."""
        if act is Act.TAKE_BEFORE and self._directory.exists() and any(self._directory.iterdir()):
            found = self._directory
        elif act is Act.VERIFY and (self._directory / AFTER_FILE).exists():
            found = self._directory / AFTER_FILE
        else:
            return
        raise RefusedError([f"{found} is not of this replacement: remove it, or give another --evidence directory"])

    def _check(self) -> None:
        if self._options.is_checked and (problems := self._find_problems()):
            raise RefusedError(problems)

    def _find_problems(self) -> Sequence[str]:
        broker, target = self._replacement.broker, self._replacement.target
        if not self._cluster.is_registered(broker):
            return [f"{self._name} is not registered: start it, as what it was"]
        if self._cluster.find_side(broker) is target:
            return [f"{self._name} is {name_of(target)} already: make a new plan"]
        return [*self._cluster.find_unheld(broker), *self._cluster.find_problems(target)]

    def _check_again(self) -> None:
        """Wait until a stop that was begun has ended, or until nothing stands against it: its command may have failed long ago."""
        broker, target = self._replacement.broker, self._replacement.target

        def find_reason() -> str:
            if not self._cluster.is_registered(broker) or self._cluster.find_side(broker) is target:
                return ""
            return "; ".join(self._cluster.find_problems(target))

        if self._options.is_checked:
            self._tell(f"{self._name}: check again before it is stopped")
            self._wait(find_reason)

    def _take_evidence(self, *, is_first: bool) -> None:
        if not self._options.has_evidence:
            self._tell("no evidence is taken: nothing will be proven of this replacement")
            return
        path = self._directory / (BEFORE_FILE if is_first else AFTER_FILE)
        try:
            read_sealed(path)
        except FileNotFoundError:
            self._cluster.take_evidence(self._directory, is_first=is_first)
        except IncompleteEvidenceError:  # an earlier process was killed while it wrote this
            path.unlink()
            self._cluster.take_evidence(self._directory, is_first=is_first)

    def _stop(self) -> None:
        broker, target = self._replacement.broker, self._replacement.target
        if self._cluster.is_registered(broker) and self._cluster.find_side(broker) is target:
            self._tell(f"{self._name} is {name_of(target)} already: nothing is stopped")
            return
        self._cluster.run_command(self._options.stop_command, broker)
        self._wait(lambda: f"{self._name} is still registered" if self._cluster.is_registered(broker) else "")

    def _start(self) -> None:
        broker = self._replacement.broker
        if not self._cluster.is_registered(broker):
            self._cluster.run_command(self._options.start_command, broker)
        self._wait(self._find_unstarted)
        if unheld := self._cluster.find_unheld(broker):
            if self._options.is_checked:
                raise RefusedError(unheld)
            for each in unheld:
                self._tell(each)

    def _find_unstarted(self) -> str:
        """Return why the broker does not run as one of the target side yet. Raises RefusedError where the old program runs again."""
        broker = self._replacement.broker
        if not self._cluster.is_registered(broker):
            return f"{self._name} has not registered"
        side = self._cluster.find_side(broker)
        if side is None:
            return f"{self._name} does not answer"
        if side is not self._replacement.target:
            raise RefusedError([f"{self._name} runs {name_of(side)} again: stop it"])
        return ""

    def _settle(self) -> None:
        """Wait until all is in sync. A program that has ended since its start is started once more: a rollback may have found the old one
        running, while the stop that the step before it had begun went on.
        """
        broker, target = self._replacement.broker, self._replacement.target
        starts = iter([self._start])
        absent_since_s: float | None = None  # from a poll that found it absent: one poll may take longer than _ABSENT_S

        def find_reason() -> str:
            nonlocal absent_since_s
            reason = self._cluster.find_unsettled(broker, target)
            if not reason:
                return ""
            if self._cluster.is_registered(broker):
                absent_since_s = None
                return reason
            now_s = time.monotonic()
            absent_since_s = now_s if absent_since_s is None else absent_since_s
            if now_s - absent_since_s >= _ABSENT_S and (start := next(starts, None)):
                self._tell(f"{self._name} has ended: start")
                start()
            return reason

        self._wait(find_reason)

    def _verify(self) -> None:
        if self._options.has_evidence:
            self._take_evidence(is_first=False)
            if problems := self._cluster.audit_evidence(self._directory):
                raise RefusedError(problems)

    def _wait(self, find_reason: Callable[[], str]) -> None:
        deadline_s = time.monotonic() + self._options.wait_s
        while reason := find_reason():
            if time.monotonic() > deadline_s:
                raise NotYetError(reason)
            time.sleep(_POLL_S)
