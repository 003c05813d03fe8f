"""A few thousand cases of every fuzzer, the same ones each time, and its corpus; `python -m tests.fuzz` tries more."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.fuzz import live
from tests.fuzz.engine import CORPUS, run
from tests.fuzz.targets import TARGETS

CASES = {
    "broker": 1_200,
    "requests": 3_000,
    "responses": 3_000,
    "records": 800,
    "checkpoints": 2_000,
    "logs": 150,
    "znodes": 2_000,
    "properties": 600,
    "command-lines": 500,
    "commands": 400,
    "tools": 600,
}
"""About a second of processor time each."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_only_declared_errors_come_out(name: str) -> None:
    report = run(TARGETS[name](), CASES[name], seed=1)
    assert not report.findings, f"{report}\npython -m tests.fuzz --target {name} --cases {CASES[name]} --seed 1"
    assert len(report.behaviours) > 10


def test_every_folder_of_the_corpus_has_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir() if path.is_dir()} <= {*TARGETS, live.NAME}
