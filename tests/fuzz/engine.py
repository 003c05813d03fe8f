"""The loop of a fuzzer: take an input that is known, change it, give it to the target, and keep it when it led to something new.

What is new is told by what the target answers (see `Target.check`): the kinds of errors and the shapes of results stand for the branches
that were taken, so no tracer is needed and a case costs little more than the code that it tries. What breaks a promise is a `Finding`; its
bytes go into `corpus/<target>/`, which every run tries first.
"""

from __future__ import annotations

import hashlib
import random
import re
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.fuzz.mutation import mutate

CORPUS = Path(__file__).parent / "corpus"
PROCESSOR_TIME_MAX_S = 2.0
"""Of one case, though cases are small: only what grows out of all proportion takes so long."""
MEMORY_FACTOR, MEMORY_EXTRA_BYTES = 2, 2 * 1024 * 1024
MEASURED_EVERY = 100
"""Memory is looked at in each of so many cases, because tracing it makes all else slow."""
_POOL_MAX = 4_000
_NUMBERS = re.compile(r"-?\d+|'[^']*'|b\"[^\"]*\"")


class Target(Protocol):
    """What is tried; one that has a `close` has it called at the end.

    With a `measured_every` it says itself how often its memory is looked at (see MEASURED_EVERY), 0 for never.
    """

    name: str

    def seeds(self, rng: random.Random) -> Sequence[bytes]:
        """Inputs that are right."""

    def check(self, data: bytes) -> str:
        """Try an input; a short text that is another one when it was treated in another way.

        Errors that the code declares are part of the text. Anything else that is raised is a finding, AssertionError for a broken promise.
        """


def declared(problem: BaseException) -> str:
    """What an error says, without the numbers and names in it."""
    return f"{type(problem).__name__}: {_NUMBERS.sub('#', str(problem))[:60]}"


@dataclass(frozen=True)
class Finding:
    """An input that broke a promise."""

    data: bytes
    problem: str

    @property
    def file_name(self) -> str:
        return hashlib.sha256(self.data).hexdigest()[:16]


@dataclass
class Report:
    """What a run saw."""

    target: str
    cases: int = 0
    behaviours: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)
    largest_factor: float = 0.0
    """Of memory to input, beyond MEMORY_EXTRA_BYTES."""
    slowest_s: float = 0.0
    elapsed_s: float = 0.0

    def __str__(self) -> str:
        lines = [
            f"{self.target}: {self.cases} cases in {self.elapsed_s:.0f} s of processor time, {len(self.behaviours)} behaviours, "
            f"slowest {self.slowest_s * 1000:.1f} ms, {len(self.findings)} findings"
        ]
        lines += [f"  {each.file_name} ({len(each.data)} bytes): {each.problem}" for each in self.findings]
        return "\n".join(lines)


def corpus(target: str) -> list[bytes]:
    """What earlier runs found."""
    folder = CORPUS / target
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []


def keep(target: str, finding: Finding) -> None:
    """Let every later run try it."""
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / finding.file_name).write_bytes(finding.data)


def run(target: Target, cases: int, seed: int, findings_max: int = 20) -> Report:
    """Try the corpus, the seeds, and `cases` inputs made of them; ends early after so many different findings."""
    rng = random.Random(f"{target.name}/{seed}")
    report, began_s = Report(target.name), time.process_time()
    every = getattr(target, "measured_every", MEASURED_EVERY)
    seeds = list(target.seeds(rng))
    pool = [*corpus(target.name), *seeds]
    problems: set[str] = set()
    for number, data in enumerate(_inputs(rng, pool, cases)):
        report.cases += 1
        behaviour, problem = _try(target, data, report, measured=every > 0 and number % every == 0)
        if problem is not None:
            if problem not in problems:
                problems.add(problem)
                report.findings.append(Finding(data, problem))
                if len(problems) >= findings_max:
                    break
        elif behaviour not in report.behaviours:
            report.behaviours.add(behaviour)
            if len(pool) < _POOL_MAX and len(data) < 4_096:
                pool.append(data)
    report.elapsed_s = time.process_time() - began_s
    getattr(target, "close", lambda: None)()
    return report


def _inputs(rng: random.Random, pool: list[bytes], cases: int) -> Iterator[bytes]:
    yield from list(pool)
    for _ in range(cases):
        yield mutate(rng, rng.choice(pool), pool)


def _try(target: Target, data: bytes, report: Report, *, measured: bool) -> tuple[str, str | None]:
    began_s = time.process_time()
    problem, behaviour, peak_bytes = None, "", 0
    try:
        if measured:
            behaviour, peak_bytes = _with_memory(target.check, data)
        else:
            behaviour = target.check(data)
    except Exception as caught:
        trace = caught.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else "?"
        problem = f"{declared(caught)} at {where}"
    took_s = time.process_time() - began_s
    report.slowest_s = max(report.slowest_s, took_s)
    if problem is None and took_s > PROCESSOR_TIME_MAX_S:
        problem = f"more than {PROCESSOR_TIME_MAX_S:g} s of processor time"
    if problem is None and peak_bytes > MEMORY_FACTOR * len(data) + MEMORY_EXTRA_BYTES:
        problem = "more memory than the input allows"
    return behaviour, problem


def _with_memory(check: Callable[[bytes], str], data: bytes) -> tuple[str, int]:
    check(data)  # what is compiled, imported or cached at first use
    tracemalloc.start()
    try:
        return check(data), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
