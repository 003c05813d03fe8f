"""With a bug in the program: the transcripts, then seed after seed, until one of them fails, and what found it.

A transcript is cheaper than a run, and shows what runs seldom come to.
"""

from __future__ import annotations

import gc
import re
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.simulation.bugs.connections import CONNECTIONS
from tests.simulation.bugs.control import CONTROL
from tests.simulation.bugs.detection import DETECTION
from tests.simulation.bugs.groups import GROUPS
from tests.simulation.bugs.logs import LOGS
from tests.simulation.bugs.patching import Bug, put_in
from tests.simulation.bugs.pressure import pressure
from tests.simulation.bugs.replication import REPLICATION
from tests.simulation.bugs.table import Row, by_transcript
from tests.simulation.bugs.transactional_pressure import transactional_pressure
from tests.simulation.bugs.transactions import TRANSACTIONAL
from tests.simulation.simulation_run import SimulationRun
from tests.simulation.stories import FOLDER, replayed
from tests.simulation.transactions.transactional_run import TransactionalRun

BUGS: Final = (*REPLICATION, *CONTROL, *DETECTION, *LOGS, *CONNECTIONS, *GROUPS, *TRANSACTIONAL)
_RULE: Final = re.compile(r"^\s*(C\d+) ", re.MULTILINE)
_LATE: Final = re.compile(
    r"not within|not finished|nobody has anything to wait for|goes on for ever|TimeoutError|Deadlock"
)


TRANSCRIPTS: Final = tuple(sorted(FOLDER.glob("*.txt")))


class Caught(NamedTuple):
    """`seeds` were tried; `by` is empty when none of them failed. A transcript needs no seed."""

    bug: Bug
    seeds: int
    by: str
    text: str
    cpu_s: float

    @property
    def is_caught(self) -> bool:
        return bool(self.by)


def live(seed: int) -> None:
    """One run of a cluster under pressure. Raises whatever the seed fails with."""
    run_quietly(SimulationRun(pressure(seed)))


def live_with_transactions(seed: int) -> None:
    """The same, for what only transactions suffer from."""
    run_quietly(TransactionalRun(transactional_pressure(seed)))


def run_quietly(run: SimulationRun) -> None:
    """Live it as cheaply as can be. Raises whatever it fails with."""
    run.explains = False
    gc.disable()  # it would look dozens of times at all that a run has
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of coroutines that a killed process had not begun
            run.run()
    finally:
        gc.enable()


def differs(transcript: Path) -> str:
    """What is seen instead of what the transcript says; empty when it happens as it is told."""
    told = transcript.read_text()
    try:
        seen = replayed(transcript)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    lines = zip(told.splitlines(), seen.splitlines(), strict=False)
    return (
        "" if seen == told else next((f"{was} became {now}" for was, now in lines if was != now), "lines are missing")
    )


def hunt(
    bug: Bug,
    seeds: Iterable[int],
    live: Callable[[int], None] = live,
    transcripts: Sequence[Path] = (),
    known: Row | None = None,
) -> Caught:
    """`known` found it once. Raises Misplaced when the program is not what the bug was written for."""
    if bug in TRANSACTIONAL:
        live = live_with_transactions
    began_s, tried = time.process_time(), 0
    if known is not None and known.seed is not None and (by_seed := _fails(bug, known.seed, live)):
        return Caught(bug, known.seed + 1, *by_seed, time.process_time() - began_s)
    for transcript in sorted(transcripts, key=lambda path: known is None or path.stem != known.transcript):
        if bug in TRANSACTIONAL:
            break
        with put_in(bug):
            text = differs(transcript)
        if text:
            return Caught(bug, 0, by_transcript(transcript.stem), text, time.process_time() - began_s)
    for seed in seeds:
        tried += 1
        if by_seed := _fails(bug, seed, live):
            return Caught(bug, tried, *by_seed, time.process_time() - began_s)
    return Caught(bug, tried, "", "", time.process_time() - began_s)


def _fails(bug: Bug, seed: int, live: Callable[[int], None]) -> tuple[str, str] | None:
    """What found the bug, and what was said."""
    with put_in(bug):
        try:
            live(seed)
        except Exception as problem:
            return what_found(problem), f"seed {seed}: {type(problem).__name__}: {problem}"
    return None


def what_found(problem: BaseException) -> str:
    """The rules that were broken; C15 for what did not happen in time; else what the brokers noticed themselves."""
    text = str(problem)
    rules = sorted(set(_RULE.findall(text)), key=lambda rule: int(rule[1:]))
    if rules:
        return ", ".join(rules)
    if _LATE.search(text) or isinstance(problem, TimeoutError):
        return "C15"
    if " stops: " in text or "InvariantBroken" in text:
        return "an invariant of the broker"
    if " logged: " in text:
        return "an error that a broker logged"
    return "a check of the scenario"
