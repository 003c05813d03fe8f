"""Which broker is replaced next, and what of that is left to do, by the plan and the journal. Pure.

A replacement is a number of acts in a fixed order. The journal has a line before each act and one behind it, so a tool that starts again
repeats at most one act, and every act may be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kafkalite.cli.migrate.kraft.forms import FORM_NAMES, Form
from kafkalite.cli.migrate.plan import Plan
from kafkalite.cli.migrate.survey import NAMES, Side

Target = Side | Form
"""What a server becomes: a broker of the other program, or one of another form."""


class SequenceError(Exception):
    """Raised where the plan and what was done do not allow to go on in that direction; the message says why."""


class NothingLeftError(SequenceError):
    """Raised where nothing is left to do in that direction."""


class Act(StrEnum):
    """The acts of a replacement, in their order."""

    CHECK = "check"
    TAKE_BEFORE = "evidence before"
    STOP = "stop"
    START = "start"
    SETTLE = "wait until it is in sync"
    ELECT = "elect preferred leaders"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True)
class Replacement:
    """A broker that becomes one of a side, or a server that takes another form; `number` counts from 1, rollbacks included."""

    number: int
    broker: int
    target: Target


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the journal: an act of a replacement was begun, or is done."""

    replacement: Replacement
    act: Act
    is_done: bool


def parse_target(text: str) -> Target:
    """Return what a journal says that a server becomes. Raises ValueError."""
    return Side(text) if text in set(Side) else Form(text)


def name_of(target: Target) -> str:
    """Return the name for people."""
    return NAMES[target] if isinstance(target, Side) else FORM_NAMES[target]


def find_unfinished(entries: Sequence[Entry]) -> Replacement | None:
    """Return the replacement that was begun and not verified; None when there is none."""
    if not entries:
        return None
    last = max(entries, key=lambda each: each.replacement.number).replacement
    return None if Entry(last, Act.VERIFY, True) in entries else last


def choose_step(plan: Plan, entries: Sequence[Entry]) -> Replacement:
    """Return the replacement that was begun, else that of the next broker of the plan. Raises SequenceError."""
    unfinished = find_unfinished(entries)
    if unfinished is not None:
        if unfinished.target is not plan.target:
            raise SequenceError(
                f"the rollback of broker {unfinished.broker} is not finished: kafkalite migrate rollback"
            )
        return unfinished
    done = _find_replaced(plan, entries)
    for step in plan.steps:
        if step.broker not in done:
            return Replacement(count_replacements(entries) + 1, step.broker, plan.target)
    raise NothingLeftError("all steps of the plan are done")


def choose_rollback(plan: Plan, entries: Sequence[Entry], broker: int | None = None) -> Replacement:
    """Return the rollback that was begun, else that of the last broker that was replaced, whether that is finished or not, or of `broker`.

    Raises SequenceError, also where a step was begun that did nothing to its broker yet: the one before it is only taken back by name.
    """
    unfinished, taken_back = find_unfinished(entries), other_side(plan.target)
    if unfinished is not None and (unfinished.target is taken_back or was_stopped(entries, unfinished)):
        if broker not in (None, unfinished.broker):
            what = "rollback" if unfinished.target is taken_back else "step"
            raise SequenceError(f"the {what} of broker {unfinished.broker} is not finished: it comes first")
        if unfinished.target is taken_back:
            return unfinished
        return Replacement(count_replacements(entries) + 1, unfinished.broker, taken_back)
    done = _find_replaced(plan, entries)
    if not done:
        raise NothingLeftError("no broker was replaced")
    if broker is None and unfinished is not None:
        raise SequenceError(f"nothing was done to broker {unfinished.broker}; --broker {done[-1]} takes that one back")
    if broker is not None and broker not in done:
        raise SequenceError(f"broker {broker} was not replaced")
    return Replacement(count_replacements(entries) + 1, done[-1] if broker is None else broker, taken_back)


def was_stopped(entries: Sequence[Entry], replacement: Replacement) -> bool:
    """True if the stop of the broker was begun at least."""
    return any(each.replacement == replacement and each.act is Act.STOP for each in entries)


def list_acts_left(entries: Sequence[Entry], replacement: Replacement) -> list[Act]:
    """Return the acts that are not done, in their order."""
    return [act for act in Act if Entry(replacement, act, True) not in entries]


def other_side(side: Side) -> Side:
    """Return the side that brokers come from."""
    return Side.APACHE_KAFKA if side is Side.KAFKALITE else Side.KAFKALITE


def count_replacements(entries: Sequence[Entry]) -> int:
    """Return the number of the last replacement that was begun."""
    return max((each.replacement.number for each in entries), default=0)


def _find_replaced(plan: Plan, entries: Sequence[Entry]) -> list[int]:
    """Return the brokers that are of the target side by the journal, in the order in which they became that."""
    done: list[int] = []
    for each in entries:
        if each.act is Act.VERIFY and each.is_done:
            broker = each.replacement.broker
            done = [one for one in done if one != broker]
            if each.replacement.target is plan.target:
                done.append(broker)
    return done
