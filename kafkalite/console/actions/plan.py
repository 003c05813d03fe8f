"""The plan of an action: what would change, row by row, and the command line that does the same."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafkalite import NAME
from kafkalite.console.parameters import BadRequestError, Parameters
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin, TopicDescription
    from kafkalite.console.survey import Survey

MOST_ROWS: Final = 200
"""Rows of a plan that are shown; all of them are executed."""
LONGEST_NAME: Final = 249


@dataclass(frozen=True, slots=True)
class Where:
    """How a command line names the cluster: by the name of a context, or else by its servers."""

    servers: str = "localhost:9092"
    context: str | None = None

    def command_line(self, words: Sequence[str]) -> str:
        """Return a command as it is typed in a shell. Apache Kafka's tools know no contexts."""
        if words[0] != NAME:
            return shlex.join([words[0], "--bootstrap-server", self.servers, *words[1:]])
        return shlex.join([*words, *(("-b", self.servers) if self.context is None else ("--context", self.context))])


@dataclass(frozen=True, slots=True)
class Plan:
    """What an action would do. `rows` have the cells of `columns`; `commands` are command lines without the words that name the cluster.

    `resolved` are parameters that replace those of the request when it is executed, so that exactly what was shown is done. A plan that
    cannot be undone has `confirm`, which a person has to type.
    """

    columns: tuple[str, ...]
    rows: Sequence[Mapping[str, Any]]
    commands: tuple[tuple[str, ...], ...]
    execute: Callable[[], Awaitable[object]]
    warnings: tuple[str, ...] = ()
    confirm: str | None = None
    resolved: Mapping[str, Any] = field(default_factory=dict)
    is_visible: Callable[[Mapping[str, TopicDescription]], bool] = lambda _: True
    """True once the topics, as the survey knows them, show that it was done."""

    def to_dict(self, where: Where, *, is_done: bool) -> dict[str, Any]:
        """Return the plan as a page gets it."""
        return {
            "columns": list(self.columns),
            "rows": [[row.get(name) for name in self.columns] for row in self.rows[:MOST_ROWS]],
            "count": len(self.rows),
            "command": " \\\n  && ".join(map(where.command_line, self.commands)),
            "warnings": list(self.warnings),
            "confirm": self.confirm,
            "resolved": dict(self.resolved),
            "is_done": is_done,
        }


@dataclass(frozen=True, slots=True)
class Scene:
    """What a plan is made with."""

    admin: Admin
    survey: Survey
    asked: Parameters

    def name(self, parameter: str, what: str) -> str:
        """Return a name that the request has to give. Raises BadRequestError."""
        found = self.asked.text(parameter, longest=10_000).strip()
        if not found:
            raise BadRequestError(f"{what} has no name; give {parameter}")
        return found

    async def topic(self) -> TopicDescription:
        """Return the topic that the request names. Raises BadRequestError, UNKNOWN_TOPIC_OR_PARTITION."""
        (found,) = await self.admin.describe_topics([self.name("topic", "the topic")])
        return found

    def require_confirmed(self, plan: Plan) -> None:
        """Raise BadRequestError for an execution without the word that a person has to type."""
        if plan.confirm is not None and self.asked.text("confirm").strip() != plan.confirm:
            raise BadRequestError(f"this cannot be undone: type {plan.confirm} to confirm it")


Planner = Callable[[Scene], Awaitable[Plan]]


async def act(planner: Planner, scene: Scene, where: Where) -> dict[str, Any]:
    """Return the plan of an action; with `execute` in the request it is executed. Raises BadRequestError, ClientError."""
    plan = await planner(scene)
    is_executed = scene.asked.flag("execute")
    if is_executed:
        scene.require_confirmed(plan)
        await plan.execute()
        await scene.survey.state.wait_for_topics(plan.is_visible)
    return plan.to_dict(where, is_done=is_executed)


def parse_partitions(text: str, parameter: str) -> list[TopicPartition]:
    """Return the partitions of "orders-0, orders-1". Raises BadRequestError."""
    found = []
    for item in text.replace(",", " ").split():
        topic, hyphen, number = item.rpartition("-")
        if not (hyphen and topic and number.isdecimal() and len(number) <= 9):
            raise BadRequestError(f"{parameter} has {item!r}, which is no partition; write it like orders-0")
        found.append(TopicPartition(topic, int(number)))
    return list(dict.fromkeys(found))


def parse_settings(text: str) -> dict[str, str]:
    """Return the settings of lines like "retention.ms = 604800000". Raises BadRequestError."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not name:
            raise BadRequestError(f"{line!r} is no setting; write it like retention.ms=604800000")
        if name in found:
            raise BadRequestError(f"{name} is set twice; set it once")
        found[name] = value
    return found


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
