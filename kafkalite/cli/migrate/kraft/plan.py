"""The plan of a move to KRaft: a TOML file that a person reads, and the tool reads again. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kafkalite.cli.doctor.findings import Finding, Status
from kafkalite.cli.migrate.kraft.forms import Form, Role
from kafkalite.cli.migrate.kraft.phases import KraftStep, Phase, Voter, list_phases, parse_voters
from kafkalite.cli.migrate.kraft.survey import KraftSurvey
from kafkalite.cli.migrate.plan import (
    PlanError,
    format_array,
    parse_document,
    parse_number,
    parse_text,
    parse_time,
    quote,
)

FORMAT: Final = 1
KIND: Final = "kraft"


@dataclass(frozen=True, slots=True)
class KraftPlan:
    """What was found and what will be done. `problems` stand against the first step."""

    cluster_id: str
    voters: tuple[Voter, ...]
    made: datetime
    problems: tuple[str, ...]
    phases: tuple[Phase, ...]

    @property
    def steps(self) -> tuple[KraftStep, ...]:
        """Return the steps of all phases in their order."""
        return tuple(each for phase in self.phases for each in phase.steps)

    def phase_of(self, server: int, form: Form) -> Phase | None:
        """Return the phase in which a server takes a form."""
        return next(
            (each for each in self.phases if any(step.server == server and step.form is form for step in each.steps)),
            None,
        )


def make_plan(
    survey: KraftSurvey, voters: Sequence[Voter], listener: str, findings: Sequence[Finding], now: datetime
) -> KraftPlan:
    """Return the plan for what was surveyed. `findings` are those of the checks; their problems are kept with it."""
    return KraftPlan(
        survey.cluster_id or "",
        tuple(voters),
        now.astimezone(UTC).replace(microsecond=0),
        tuple(f"{each.check}: {each.found}" for each in findings if each.status is Status.PROBLEM),
        list_phases(survey, voters, listener),
    )


def format_plan(plan: KraftPlan) -> str:
    """Return the text of the file."""
    return "\n".join(_lines_of(plan)) + "\n"


def _lines_of(plan: KraftPlan) -> Iterator[str]:
    yield "# From ZooKeeper to KRaft and Apache Kafka 4 on the same logs (KIP-866), from the top."
    yield "# Each phase says which way leads back once it has begun. Phases without steps are done by hand."
    yield f"format = {FORMAT}"
    yield f"kind = {quote(KIND)}"
    yield f"cluster_id = {quote(plan.cluster_id)}"
    yield f"controllers = {quote(','.join(map(str, plan.voters)))}"
    yield f"made = {plan.made.strftime('%Y-%m-%dT%H:%M:%SZ')}"
    yield from format_array("problems", plan.problems)
    for phase in plan.phases:
        yield ""
        yield "[[phases]]"
        yield f"name = {quote(phase.name)}"
        yield f"way_back = {quote(phase.way_back)}"
        yield from format_array("actions", phase.actions)
        yield from format_array("removed", phase.removed)
        if phase.changed:
            yield "    [phases.changed]"
            yield from (f"    {quote(name)} = {quote(value)}" for name, value in phase.changed.items())
        for step in phase.steps:
            yield "    [[phases.steps]]"
            yield f"    server = {step.server}"
            yield f"    role = {quote(step.role)}"
            yield f"    address = {quote(step.address)}"
            yield f"    form = {quote(step.form)}"


def parse_plan(text: str) -> KraftPlan:
    """Return the plan in a file's text. Raises PlanError."""
    return parse_document(text, _parse_plan)


def _parse_plan(document: Mapping[str, Any]) -> KraftPlan:
    if (document.get("format"), document.get("kind")) != (FORMAT, KIND):
        raise PlanError("it is no plan of a move to KRaft")
    return KraftPlan(
        parse_text(document["cluster_id"]),
        voters := parse_voters(parse_text(document["controllers"])),
        parse_time(document["made"]),
        tuple(map(parse_text, document["problems"])),
        tuple(_parse_phase(each, {voter.id for voter in voters}) for each in document["phases"]),
    )


def _parse_phase(phase: Mapping[str, Any], voters: Collection[int]) -> Phase:
    return Phase(
        parse_text(phase["name"]),
        parse_text(phase["way_back"]),
        tuple(map(parse_text, phase["actions"])),
        {name: parse_text(value) for name, value in phase.get("changed", {}).items()},
        tuple(map(parse_text, phase["removed"])),
        tuple(_parse_step(each, voters) for each in phase.get("steps", ())),
    )


def _parse_step(step: Mapping[str, Any], voters: Collection[int]) -> KraftStep:
    """Return a step. Raises ValueError also for what is not one address, and for a role that the voters contradict."""
    from kafkalite.server_addresses import parse_servers

    found = KraftStep(parse_number(step["server"]), Role(step["role"]), parse_text(step["address"]), Form(step["form"]))
    if len(parse_servers(found.address)) != 1:
        raise ValueError(f"{found.address!r} is not one address")
    if (found.role is Role.CONTROLLER) != (found.server in voters):
        raise ValueError(f"server {found.server} is a {found.role} in a step, and otherwise among the controllers")
    return found
