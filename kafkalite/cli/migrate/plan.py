"""The plan of a migration: a TOML file that a person reads, and the tool reads again. Pure.

A step for each broker that is not of the target side yet, the controller's last. The plan says what was found and what will be done; what
has been done is not in it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from kafkalite.cli.doctor.findings import Finding, Status
from kafkalite.cli.migrate.checks import HELD, describe_kind
from kafkalite.cli.migrate.survey import NAMES, Side, Survey, SurveyedBroker
from kafkalite.protocol.inter_broker import ProtocolVersion

FORMAT: Final = 1
AnyPlan = TypeVar("AnyPlan")


class PlanError(ValueError):
    """Raised for a file that is no plan; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """The replacement of one broker. `kind` is its program and release, `actions` sentences for a person, in their order."""

    broker: int
    address: str
    kind: str
    is_controller: bool
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What was found and what will be done. `held` are settings with the value that every broker keeps until after the last step;
    `problems` stand against the plan, `done` are brokers that are of the target side already.
    """

    cluster_id: str
    target: Side
    made: datetime
    held: Mapping[str, str]
    problems: tuple[str, ...]
    done: tuple[int, ...]
    steps: tuple[PlannedStep, ...]


def make_plan(survey: Survey, target: Side, findings: Sequence[Finding], now: datetime) -> Plan:
    """Return the plan for what was surveyed. `findings` are those of the checks; their problems are kept with it."""
    left = [each for each in survey.brokers if each.side is not target]
    ordered = sorted(left, key=lambda each: (each.id == survey.controller, each.id))
    return Plan(
        survey.cluster_id or "",
        target,
        now.astimezone(UTC).replace(microsecond=0),
        _held_values(survey.brokers),
        tuple(f"{each.check}: {each.found}" for each in findings if each.status is Status.PROBLEM),
        tuple(each.id for each in survey.brokers if each.side is target),
        tuple(_plan_step(each, target, each.id == survey.controller) for each in ordered),
    )


def _held_values(brokers: Sequence[SurveyedBroker]) -> dict[str, str]:
    """Return the values to be held, of those settings that all brokers have in common."""
    found = {}
    for name in HELD:
        values = {each.value_of(name) for each in brokers}
        if len(values) == 1 and (value := values.pop()) is not None:
            found[name] = value
    return found


def find_unheld(held: Mapping[str, str], broker: int, settings: Mapping[str, str | None]) -> list[str]:
    """Return which of the settings that a plan holds a broker has otherwise, in words. Versions are compared by what they mean."""
    return [
        f"broker {broker} has {name}={settings.get(name)}, the plan holds {wanted}: write that into its server.properties"
        for name, wanted in held.items()
        if name in settings and not _agree(settings[name] or "", wanted)
    ]


def _agree(value: str, wanted: str) -> bool:
    """True if two versions are the same; "3.9" agrees with every step of 3.9."""
    try:
        one, other = ProtocolVersion.parse(value), ProtocolVersion.parse(wanted)
    except ValueError:
        return value == wanted
    return one[:2] == other[:2] and (one == other or "-IV" not in value or "-IV" not in wanted)


def _plan_step(broker: SurveyedBroker, target: Side, is_controller: bool) -> PlannedStep:
    actions = [
        "wait until every partition has all its replicas in sync",
        "note digests of what can be read, and the groups' offsets",
        f"stop {describe_kind(broker)} cleanly (SIGTERM), so that it hands over what it leads",
        f"start {NAMES[target]} with the same server.properties and log.dirs",
        f"wait until broker {broker.id} is registered at {broker.address} and in sync again",
        "let it lead again what it prefers to lead: kafkalite leader elect --all",
        "compare what can be read, and the groups' offsets",
    ]
    if is_controller:
        actions.insert(2, "it is the controller: another broker takes over when it stops")
    return PlannedStep(broker.id, broker.address, describe_kind(broker), is_controller, tuple(actions))


def format_plan(plan: Plan) -> str:
    """Return the text of the file."""
    return "\n".join(_lines_of(plan)) + "\n"


def _lines_of(plan: Plan) -> Iterator[str]:
    yield f"# To {NAMES[plan.target]}, one broker after the other, from the top; the controller is last."
    yield "# The rollback of each step is the same with the programs exchanged: stop the new one, start the old one."
    yield f"format = {FORMAT}"
    yield f"cluster_id = {quote(plan.cluster_id)}"
    yield f"to = {quote(plan.target)}"
    yield f"made = {plan.made.strftime('%Y-%m-%dT%H:%M:%SZ')}"
    yield f"done = [{', '.join(map(str, plan.done))}]"
    if plan.problems:
        yield "# These stand against it. A step checks again by itself, and does nothing before they are gone."
    yield from format_array("problems", plan.problems)
    yield ""
    yield "# In server.properties of every broker before the first step, and unchanged until after the last."
    yield "[held]"
    for name, value in plan.held.items():
        yield f"{quote(name)} = {quote(value)}"
    for step in plan.steps:
        yield ""
        yield "[[steps]]"
        yield f"broker = {step.broker}"
        yield f"address = {quote(step.address)}"
        yield f"kind = {quote(step.kind)}"
        yield f"is_controller = {'true' if step.is_controller else 'false'}"
        yield from format_array("actions", step.actions)


def format_array(name: str, values: Sequence[str]) -> Iterator[str]:
    """Yield the lines of an array of strings."""
    if not values:
        yield f"{name} = []"
        return
    yield f"{name} = ["
    for each in values:
        yield f"    {quote(each)},"
    yield "]"


def quote(text: str) -> str:
    """Return a basic string of TOML; JSON's escapes are among TOML's, except for DEL, which JSON leaves alone."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def parse_plan(text: str) -> Plan:
    """Return the plan in a file's text. Raises PlanError."""
    return parse_document(text, _parse_plan)


def _parse_plan(document: Mapping[str, Any]) -> Plan:
    if (found := document.get("format")) != FORMAT:
        raise PlanError(f"its format is {found!r}, not {FORMAT}")
    return Plan(
        parse_text(document["cluster_id"]),
        Side(document["to"]),
        parse_time(document["made"]),
        {name: parse_text(value) for name, value in document["held"].items()},
        tuple(map(parse_text, document["problems"])),
        tuple(map(parse_number, document["done"])),
        tuple(map(_parse_step, document.get("steps", ()))),
    )


def parse_document(text: str, parse: Callable[[Mapping[str, Any]], AnyPlan]) -> AnyPlan:
    """Return what `parse` makes of a TOML document. Raises PlanError for what is no TOML, lacks a key, or has a value of another kind."""
    try:
        return parse(tomllib.loads(text))
    except PlanError:
        raise
    except tomllib.TOMLDecodeError as failed:
        raise PlanError(f"it is no TOML: {failed}") from None
    except KeyError as failed:
        raise PlanError(f"it lacks {failed.args[0]}") from None
    except (TypeError, ValueError, AttributeError) as failed:
        raise PlanError(str(failed)) from None


def read_plan(path: Path, parse: Callable[[str], AnyPlan]) -> AnyPlan:
    """Return what `parse` makes of a file's text. Raises PlanError, OSError."""
    try:
        return parse(path.read_text("utf-8"))
    except UnicodeDecodeError:
        raise PlanError("it is no UTF-8") from None


def _parse_step(step: Mapping[str, Any]) -> PlannedStep:
    return PlannedStep(
        parse_number(step["broker"]),
        parse_text(step["address"]),
        parse_text(step["kind"]),
        step["is_controller"] is True,
        tuple(map(parse_text, step["actions"])),
    )


def parse_text(value: Any) -> str:
    """Return a value of TOML that is a string. Raises ValueError, as the two below."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def parse_number(value: Any) -> int:
    """Return a value of TOML that is an integer."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no number")
    return value


def parse_time(value: Any) -> datetime:
    """Return a value of TOML that is a time with its zone."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError(f"{value!r} is no time with a zone")
    return value
