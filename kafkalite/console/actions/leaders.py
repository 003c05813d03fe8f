"""Leaders moved: back to the preferred replicas, to another replica in sync, or away from a broker.

A leader is moved by putting it first among its replicas, which moves no records, and electing the preferred replica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite import NAME
from kafkalite.console.actions.plan import Plan, Scene, parse_partitions
from kafkalite.console.parameters import BadRequestError
from kafkalite.types import NO_BROKER, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.client import Admin, PartitionView
    from kafkalite.console.survey import Survey

MOST_AT_ONCE: Final = 1_000
"""Partitions whose leaders one action moves."""
_COLUMNS: Final = ("partition", "leader", "becomes", "replicas", "new_replicas")


async def plan_election(scene: Scene) -> Plan:
    """Plan that the preferred replicas lead: of `partitions` ("orders-0 orders-1"), of `topic`, or of those whose first replica is
    `broker`; of all that another one leads when none is given.
    """
    targets = {}
    for place, each in _select_partitions(scene):
        preferred = each.replicas[0] if each.replicas else NO_BROKER
        if each.leader != preferred and preferred in each.isr:
            targets[place] = (each, preferred, each.replicas)
    return _plan(scene, targets, "every preferred replica that is in sync leads already")


async def plan_move(scene: Scene) -> Plan:
    """Plan that `to` leads `partitions`, or `topic`, or that others lead what the broker `away_from` does: of each partition the next
    replica in sync.
    """
    asked = scene.asked
    to = asked.number("to", 0, 0, 2**31 - 1) if asked.has("to") else None
    away_from = asked.number("away_from", 0, 0, 2**31 - 1) if asked.has("away_from") else None
    if (to is None) == (away_from is None):
        raise BadRequestError("say to which broker leaders are moved (to), or away from which one (away_from)")
    targets = {}
    for place, each in _select_partitions(scene):
        if away_from is not None and each.leader != away_from:
            continue
        others = [broker for broker in each.replicas if broker in each.isr and broker != each.leader]
        leader = to if to is not None else next(iter(others), None)
        if to is not None and (to not in each.replicas or to not in each.isr):
            raise BadRequestError(
                f"broker {to} cannot lead {place}: it is not in sync with it (in sync: {_list(each.isr)})"
            )
        if leader is not None and leader != each.leader:
            targets[place] = each, leader, (leader, *(broker for broker in each.replicas if broker != leader))
    return _plan(scene, targets, "no leader would move")


def _select_partitions(scene: Scene) -> Iterator[tuple[TopicPartition, PartitionView]]:
    """Yield the partitions that the request names, as the survey knows them. Raises BadRequestError."""
    asked, survey = scene.asked, scene.survey
    if asked.has("partitions"):
        for place in parse_partitions(asked.text("partitions"), "partitions"):
            yield place, _partition(survey, place)
        return
    if asked.has("topic"):
        name = scene.name("topic", "the topic")
        if name not in survey.topics:
            raise BadRequestError(f"there is no topic {name} that this console may describe")
        topics = [survey.topics[name]]
    else:
        topics = list(survey.topics.values())
    broker = asked.number("broker", 0, 0, 2**31 - 1) if asked.has("broker") else None
    for topic in topics:
        for each in topic.partitions:
            if broker is None or each.replicas[:1] == (broker,):
                yield TopicPartition(topic.name, each.partition), each


def _partition(survey: Survey, place: TopicPartition) -> PartitionView:
    topic = survey.topics.get(place.topic)
    found = topic.partition(place.partition) if topic is not None else None
    if found is None:
        raise BadRequestError(f"there is no partition {place} that this console may describe")
    return found


def _plan(
    scene: Scene, targets: dict[TopicPartition, tuple[PartitionView, int, tuple[int, ...]]], why_none: str
) -> Plan:
    if not targets:
        raise BadRequestError(f"there is nothing to do: {why_none}")
    if len(targets) > MOST_AT_ONCE:
        raise BadRequestError(
            f"{len(targets):,} leaders would move; name a topic or partitions, {MOST_AT_ONCE:,} at most"
        )
    reordered = {place: replicas for place, (each, _, replicas) in targets.items() if replicas != each.replicas}
    rows: list[dict[str, Any]] = [
        {
            "partition": str(place),
            "leader": each.leader,
            "becomes": leader,
            "replicas": _list(each.replicas),
            "new_replicas": _list(replicas),
        }
        for place, (each, leader, replicas) in targets.items()
    ]
    elect = (NAME, "leader", "elect", *map(str, targets))
    moves = [f"{place}={_list(replicas)}" for place, replicas in reordered.items()]
    reorder = (NAME, "partition", "reassign", "execute", *moves, "--yes", "--wait")
    return Plan(
        _COLUMNS if reordered else _COLUMNS[:3],
        rows,
        (reorder, elect) if reordered else (elect,),
        lambda: _move(scene.admin, reordered, list(targets)),
        ("The broker named first is preferred from then on; no records are moved.",) if reordered else (),
    )


async def _move(
    admin: Admin, reordered: dict[TopicPartition, tuple[int, ...]], partitions: list[TopicPartition]
) -> None:
    """Put the new leaders first, and have them elected. Raises AdminError."""
    if reordered:
        await admin.alter_partition_reassignments(reordered)
    await admin.elect_leaders("preferred", partitions)


def _list(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
