"""What has to be done in the target so that it has the topics of the source. Pure.

While a topic is mirrored its only in-sync replica is the mirror itself, and a reassignment to the target's own brokers is under way: they
replicate, and none of them can be elected. The switch ends that reassignment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from zlib import crc32

from kafkalite import OWN_SETTINGS
from kafkalite.types import TopicPartition
from zk.placement import Assignment, assign

if TYPE_CHECKING:
    from kafkalite.client import PartitionView

HELD_SETTINGS: Final[Mapping[str, str]] = {"unclean.leader.election.enable": "false"}
"""Settings of a topic while it is mirrored: a follower that is elected would take records that the source has not."""
NOTHING_UNKNOWN: Final[Mapping[str, str]] = MappingProxyType({})
EPOCHS_OF_A_FENCING: Final = 2
"""A broker that is fenced loses the leadership of its partitions, and gets it back: each raises the leader epoch by one."""
_LEFT_OUT: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.downconversion.enable",
        "message.format.version",
    }
)
"""Settings that name brokers of the source, and those that Kafka 4 does not have any more (KIP-724)."""


@dataclass(frozen=True, slots=True)
class MirroredTopic:
    """A topic as one side has it; `settings` are those of the topic itself."""

    name: str
    topic_id: str
    partitions: tuple[PartitionView, ...]
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic that the mirror has begun, by its ids on both sides; `target_id` is empty until it was seen there."""

    source_id: str
    target_id: str = ""
    is_unconfirmed: bool = False
    """True while `mirror back` makes it in the source, until a broker has given the id of what was made."""


@dataclass(slots=True)
class TopicPlan:
    """What to do next, topic by topic. `problems` keep a switch from happening, `handed_over` those that the target leads."""

    creations: dict[str, int] = field(default_factory=dict)
    """Numbers of partitions."""
    additions: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Numbers of partitions that are there, and that are wanted."""
    moves: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    settings: dict[str, dict[str, str | None]] = field(default_factory=dict)
    mirrored: list[str] = field(default_factory=list)
    handed_over: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


def plan_topics(
    source: Mapping[str, MirroredTopic],
    target: Mapping[str, MirroredTopic],
    known: Mapping[str, KnownTopic],
    mirror_id: int,
    brokers: Mapping[int, str | None],
    replication_factor: int | None,
    unknown: Mapping[str, str] = NOTHING_UNKNOWN,
) -> TopicPlan:
    """Return what is to be done. `brokers` are those of the target without the mirror, with their racks; without a `replication_factor`
    each topic has as many replicas as in the source. `unknown` are topics that a side neither shows nor denies (`absence`): nothing is
    done about them.
    """
    plan = TopicPlan(problems=dict(unknown))
    for name in sorted(known.keys() - source.keys() - unknown.keys()):
        if target.get(name) is not None and _has_replica_of_mirror(target[name], mirror_id):
            plan.problems[name] = "is not in the source any more; delete it in the target, or keep it there as it is"
    for name, wanted in sorted(source.items()):
        there, begun = target.get(name), known.get(name)
        if name in unknown:
            continue
        if why := _find_objection(wanted, there, begun, mirror_id):
            plan.problems[name] = why
        elif there is None:
            count = replication_factor or len(wanted.partitions[0].replicas)
            if count > len(brokers):
                plan.problems[name] = _tell_scarcity(count, brokers)
            else:
                plan.creations[name] = len(wanted.partitions)
        elif not _has_replica_of_mirror(there, mirror_id):
            plan.handed_over.append(name)
        else:
            _plan_topic(plan, wanted, there, mirror_id, brokers, replication_factor)
    return plan


def _find_objection(
    wanted: MirroredTopic, there: MirroredTopic | None, begun: KnownTopic | None, mirror_id: int
) -> str:
    if begun is not None and begun.source_id != wanted.topic_id:
        return "was deleted in the source and made again; delete it in the target and begin with another directory"
    if there is None:
        return "was deleted in the target" if begun is not None and begun.target_id else ""
    if begun is None:
        return "is in the target already, and not from this mirror; delete it there, or leave it out with --topic"
    if begun.target_id and begun.target_id != there.topic_id:
        return "was deleted in the target and made again"
    if not begun.target_id and not _has_replica_of_mirror(there, mirror_id):
        return "is in the target already, and not from this mirror; delete it there, or leave it out with --topic"
    if len(there.partitions) > len(wanted.partitions):
        return f"has {len(there.partitions)} partitions in the target, and {len(wanted.partitions)} in the source"
    return ""


def _has_replica_of_mirror(topic: MirroredTopic, mirror_id: int) -> bool:
    """True if the mirror still has a replica of some partition; a mirror that is fenced leads none."""
    return any(mirror_id in each.replicas for each in topic.partitions)


def _tell_scarcity(count: int, brokers: Collection[int]) -> str:
    return f"is to have {count} replicas, and the target has {len(brokers)} brokers now; --replication-factor gives it fewer"


def _plan_topic(
    plan: TopicPlan,
    wanted: MirroredTopic,
    there: MirroredTopic,
    mirror_id: int,
    brokers: Mapping[int, str | None],
    replication_factor: int | None,
) -> None:
    plan.mirrored.append(wanted.name)
    if len(there.partitions) < len(wanted.partitions):
        plan.additions[wanted.name] = len(there.partitions), len(wanted.partitions)
    count = replication_factor or len(wanted.partitions[0].replicas)
    unplaced = [each for each in there.partitions if each.replicas == (mirror_id,)]  # no reassignment is under way
    if unplaced and count > len(brokers):
        plan.problems[wanted.name] = _tell_scarcity(count, brokers)
    elif unplaced:
        placed = place_replicas(wanted.name, len(there.partitions), count, brokers)
        for each in unplaced:
            plan.moves[TopicPartition(wanted.name, each.partition)] = placed[each.partition]
    if changes := compare_settings({**wanted_settings(wanted), **HELD_SETTINGS}, there.settings):
        plan.settings[wanted.name] = changes


def place_replicas(
    topic: str, partitions: int, replication_factor: int, brokers: Mapping[int, str | None]
) -> Assignment:
    """Return the brokers of each partition, spread as Kafka does, the same at each call."""
    start = crc32(topic.encode()) % len(brokers)
    racks = {each: rack for each, rack in brokers.items() if rack is not None}
    by_rack = racks if len(racks) == len(brokers) else None
    return assign(sorted(brokers), partitions, replication_factor, start=start, shift=start, racks=by_rack)


def wanted_settings(topic: MirroredTopic) -> dict[str, str]:
    """Return the settings of a topic of the source that the target can have."""
    return {key: value for key, value in topic.settings.items() if not is_left_out(key)}


def release_settings(source: Mapping[str, str], target: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a topic of the target with those of the source in place of the held ones; what has another value than the
    held one was changed by somebody, and stays.
    """
    held = {key for key, value in HELD_SETTINGS.items() if target.get(key) == value}
    return {
        **{key: value for key, value in target.items() if key not in held},
        **{key: source[key] for key in held if key in source},
    }


def is_left_out(key: str) -> bool:
    """True for a setting of topics that is not copied."""
    return key in _LEFT_OUT or key.startswith(OWN_SETTINGS)


def compare_settings(wanted: Mapping[str, str], there: Mapping[str, str]) -> dict[str, str | None]:
    """Return what to set, and with None what to take away."""
    changes: dict[str, str | None] = {key: value for key, value in wanted.items() if there.get(key) != value}
    return changes | dict.fromkeys(there.keys() - wanted.keys() - _LEFT_OUT)


def count_fencings(needed_epochs: Mapping[TopicPartition, int], topics: Iterable[MirroredTopic]) -> int:
    """Return how often the mirror has to be fenced so that each partition's leader epoch is no lower than the source's."""
    epochs = {
        TopicPartition(topic.name, each.partition): each.leader_epoch for topic in topics for each in topic.partitions
    }
    missing = max((epoch - epochs[place] for place, epoch in needed_epochs.items() if place in epochs), default=0)
    return max(0, -(-missing // EPOCHS_OF_A_FENCING))


def source_epochs(topics: Iterable[MirroredTopic]) -> dict[TopicPartition, int]:
    """Return the leader epoch of each partition."""
    return {
        TopicPartition(topic.name, each.partition): each.leader_epoch for topic in topics for each in topic.partitions
    }


def find_targets(
    topics: Iterable[MirroredTopic], mirror_id: int, alive: Collection[int]
) -> Iterator[tuple[TopicPartition, tuple[int, ...], tuple[int, ...]]]:
    """Yield for each partition that is mirrored: the brokers that are to have it, and those of them that are not there."""
    for topic in topics:
        for each in topic.partitions:
            if mirror_id in each.replicas:
                wanted = tuple(broker for broker in each.replicas if broker != mirror_id)
                yield TopicPartition(topic.name, each.partition), wanted, tuple(set(wanted) - set(alive))
