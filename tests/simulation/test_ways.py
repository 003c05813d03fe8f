"""Simulated runs take the ways that a broker under load takes: answers in portions, turns of those who log in, requests served together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final
from unittest.mock import patch

from kafkalite.broker.connections.fast_path_sender import FastPathSender
from kafkalite.broker.connections.request_order import RequestOrder
from kafkalite.broker.connections.response_writer import PortionedAnswer, ResponseWriter
from kafkalite.broker.connections.unauthenticated_reads import UnauthenticatedRead, UnauthenticatedReads
from kafkalite.broker.produce.commit_waits import CommitWaits
from kafkalite.broker.produce.fast_path import FastPath
from kafkalite.broker.produce.request_template import RequestTemplates
from kafkalite.broker.replication.append_pace import AppendPace
from tests.simulation.plan import draw_plan
from tests.simulation.seeds import live

SEEDS: Final = (4, 15, 17, 21)
ESSENTIAL: Final[dict[type[Any], tuple[str, ...]]] = {
    ResponseWriter: ("write", "write_now", "_flush", "cork_for_turn", "uncork", "write_portions", "pause", "resume"),
    PortionedAnswer: ("go_on", "_turn", "_prepare"),
    UnauthenticatedReads: ("add", "_register", "arm", "forget", "_read_ready", "_end_turns", "close"),
    UnauthenticatedRead: ("pause_reading", "resume_reading", "end_turns"),
    RequestTemplates: ("find", "add", "close"),
    FastPath: (
        "accept_request",
        "hold_sender",
        "learn_template",
        "serve_accepted",
        "_append",
        "_wait",
        "_complete_responses",
        "_end_pause",
        "_resume_held",
    ),
    AppendPace: ("delay_ms", "note_append"),
    CommitWaits: ("add", "_complete"),
    FastPathSender: (
        "pass_request",
        "send_response",
        "reserve_response",
        "send_completed",
        "return_request",
        "hold_reading",
    ),
    RequestOrder: (
        "receive",
        "begin_held",
        "complete",
        "release",
        "reserve",
        "return_request",
        "stop",
        "lift",
        "abandon",
    ),
}
"""By class, the functions without which it does not do its work."""


def counted(calls: Counter[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def count(*arguments: Any, **named: Any) -> Any:
        calls[name] += 1
        return function(*arguments, **named)

    return count


def calls_of(seed: int) -> Counter[str]:
    """How often a run of the seed calls each of the essential functions; none was called that is not named."""
    calls: Counter[str] = Counter()
    with ExitStack() as patches:
        for owner, names in ESSENTIAL.items():
            for name in names:
                there = f"{owner.__name__}.{name}"
                patches.enter_context(patch.object(owner, name, counted(calls, there, getattr(owner, name))))
        result, _ = live(draw_plan(seed))
    assert not result.problem, result.problem
    return calls


def test_a_few_seeds_take_every_way() -> None:
    calls: Counter[str] = Counter()
    for seed in SEEDS:
        calls.update(calls_of(seed))
    wanted = [f"{owner.__name__}.{name}" for owner, names in ESSENTIAL.items() for name in names]
    assert [name for name in wanted if not calls[name]] == []
