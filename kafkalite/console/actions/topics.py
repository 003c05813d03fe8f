"""Topics created, deleted and emptied, and partitions added."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalite import NAME
from kafkalite.console.actions.plan import Plan, Scene, count_of, parse_settings
from kafkalite.console.parameters import BadRequestError
from kafkalite.types import NO_BROKER, TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin, OffsetAndTimestamp, TopicDescription

_DEFAULT: Final = -1
_MOST_PARTITIONS: Final = 100_000
_MOST_REPLICAS: Final = 1_000


async def plan_creation(scene: Scene) -> Plan:
    """Plan a new topic: `topic`, `partitions` and `replicas` (the brokers' defaults where they are empty), `settings` in lines."""
    from kafkalite.client import NewTopic

    asked, name = scene.asked, scene.name("topic", "the topic")
    partitions = asked.number("partitions", 0, 1, _MOST_PARTITIONS) if asked.has("partitions") else _DEFAULT
    replicas = asked.number("replicas", 0, 1, _MOST_REPLICAS) if asked.has("replicas") else _DEFAULT
    settings = parse_settings(asked.text("settings"))
    wanted = NewTopic(name, partitions, replicas, None, settings)
    (checked,) = await scene.admin.create_topics([wanted], validate_only=True)
    row = {
        "topic": name,
        "partitions": _known_number(checked.num_partitions, partitions),
        "replicas": _known_number(checked.replication_factor, replicas),
        "settings": ", ".join(f"{key}={value}" for key, value in settings.items()) or None,
    }
    command = [NAME, "topic", "create", name]
    command += ["--partitions", str(partitions)] if partitions != _DEFAULT else []
    command += ["--replication-factor", str(replicas)] if replicas != _DEFAULT else []
    for key, value in settings.items():
        command += ["--config", f"{key}={value}"]
    return Plan(
        tuple(row),
        [row],
        (tuple(command),),
        partial(scene.admin.create_topics, [wanted]),
        is_visible=lambda topics: name in topics,
    )


def _known_number(told: int, wanted: int) -> int | None:
    """Return a number as the broker told it, or as it was wanted where the broker is too old to tell; None for the brokers' default."""
    found = told if told > 0 else wanted
    return found if found > 0 else None


async def plan_deletion(scene: Scene) -> Plan:
    """Plan the end of `topic` with all its records."""
    topic = await scene.topic()
    first, last = await _bounds(scene.admin, topic)
    records = sum(max(0, end.offset - first[place].offset) for place, end in last.items() if place in first)
    row = {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "records": records,
        "bytes": scene.survey.topic_bytes.get(topic.name),
    }
    warnings = [f"All records of {topic.name} are lost; what groups have committed for it is forgotten."]
    if topic.is_internal:
        warnings.append(f"{topic.name} is a topic of the cluster's own: groups or transactions are lost with it.")
    return Plan(
        tuple(row),
        [row],
        ((NAME, "topic", "delete", topic.name, "--yes"),),
        partial(scene.admin.delete_topics, [topic.name]),
        tuple(warnings),
        confirm=topic.name,
        is_visible=lambda topics: topic.name not in topics,
    )


async def plan_purge(scene: Scene) -> Plan:
    """Plan the deletion of the records of `topic` before the `offsets` ("0:17,1:4"); without them, all that there are now."""
    topic = await scene.topic()
    settings = await scene.admin.describe_configs("topic", topic.name, keys=["cleanup.policy"])
    policy = settings["cleanup.policy"].value if "cleanup.policy" in settings else None
    if policy is not None and "delete" not in policy.split(","):
        raise BadRequestError(
            f"records of {topic.name} cannot be deleted by offset, because its cleanup.policy is {policy}; "
            "add delete to it, or write records without a value for the keys that are to go"
        )
    first, last = await _bounds(scene.admin, topic)
    wanted = scene.asked.positions("offsets", topic.name) or {place: end.offset for place, end in last.items()}
    for place, before in wanted.items():
        if place not in last or place not in first:
            raise BadRequestError(f"{place} has no leader, or is no partition of {topic.name}")
        if before > last[place].offset:
            raise BadRequestError(f"{place} ends at offset {last[place].offset}; {before} is beyond it")
    rows = [
        {
            "partition": place.partition,
            "first_offset": first[place].offset,
            "becomes": before,
            "records": before - first[place].offset,
        }
        for place, before in sorted(wanted.items())
        if first[place].offset < before
    ]
    if not rows:
        raise BadRequestError(f"{topic.name} has no records to delete")
    targets = {TopicPartition(topic.name, int(row["partition"])): int(row["becomes"]) for row in rows}
    places = [f"{place}={before}" for place, before in targets.items()]
    lost = sum(int(row["records"]) for row in rows)
    return Plan(
        ("partition", "first_offset", "becomes", "records"),
        rows,
        ((NAME, "record", "delete", *places, "--yes"),),
        partial(scene.admin.delete_records, targets),
        (f"{count_of(lost, 'record')} {'is' if lost == 1 else 'are'} lost. The topic stays.",),
        confirm=topic.name,
        resolved={"offsets": ",".join(f"{place.partition}:{before}" for place, before in targets.items())},
    )


async def _bounds(
    admin: Admin, topic: TopicDescription
) -> tuple[dict[TopicPartition, OffsetAndTimestamp], dict[TopicPartition, OffsetAndTimestamp]]:
    """Return the first and the last offset of each partition that has a leader."""
    led = [TopicPartition(topic.name, each.partition) for each in topic.partitions if each.leader != NO_BROKER]
    described = {topic.name: topic}
    first = await admin.list_offsets(dict.fromkeys(led, "earliest"), described=described)
    last = await admin.list_offsets(dict.fromkeys(led, "latest"), described=described)
    return (
        {place: found for place, found in first.items() if found is not None},
        {place: found for place, found in last.items() if found is not None},
    )


async def plan_more_partitions(scene: Scene) -> Plan:
    """Plan more partitions of `topic`, `total` in all."""
    topic = await scene.topic()
    total = scene.asked.number("total", 0, 1, _MOST_PARTITIONS)
    if total <= len(topic.partitions):
        raise BadRequestError(
            f"{topic.name} has {count_of(len(topic.partitions), 'partition')}; total must be greater, because none can be taken away"
        )
    await scene.admin.create_partitions({topic.name: total}, validate_only=True)
    row = {"topic": topic.name, "partitions": len(topic.partitions), "becomes": total}
    return Plan(
        tuple(row),
        [row],
        ((NAME, "partition", "add", topic.name, str(total)),),
        partial(scene.admin.create_partitions, {topic.name: total}),
        ("Records with a key go to other partitions from then on, so the order by key holds only for later ones.",),
        is_visible=lambda topics: topic.name in topics and len(topics[topic.name].partitions) >= total,
    )
