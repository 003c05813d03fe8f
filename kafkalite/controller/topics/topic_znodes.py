"""Topic znodes: reading them with their watches armed, giving ids to topics written without one, writing them back."""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from kafkalite.controller.assignment import ReplicaAssignment
from kafkalite.controller.cluster_state import ClusterState, Topic
from kafkalite.controller.steps import Steps, draw_topic_ids, pause, pieces, read, write
from kafkalite.types import NO_TOPIC_ID, TopicPartition, topic_id_from_text, topic_id_to_text
from zk import paths
from zk.store import BadVersionError, NoNodeError, StoreError, Write
from zk.znodes import MalformedZnodeError, TopicAssignment

logger = logging.getLogger(__name__)

Change: TypeAlias = Callable[[TopicAssignment | None], TopicAssignment]
"""What a topic's znode is to hold, by what it holds, None when that cannot be read."""

_LARGE_TOPIC = 300
"""Partitions; what has more is taken in by pieces, with turns for others in between."""


def load_topics(cluster: ClusterState, names: Sequence[str]) -> Steps[list[TopicPartition]]:
    """Read topics that are new to `cluster` into it; their partitions. One that vanished meanwhile is left out."""
    loaded: list[TopicPartition] = []
    for some in pieces(names):
        loaded += yield from _load_some(cluster, some)
        yield from pause()
    return loaded


def _load_some(cluster: ClusterState, names: Sequence[str]) -> Steps[list[TopicPartition]]:
    znodes = yield from read([paths.topic(name) for name in names], watch=True)
    found: dict[str, TopicAssignment] = {}
    for name, znode in zip(names, znodes, strict=True):
        if znode is not None:
            try:
                found[name] = TopicAssignment.decode(znode[0])
            except MalformedZnodeError as problem:
                logger.error("%s has no partitions until it is mended: %s", paths.topic(name), problem)
                cluster.add_topic(name, NO_TOPIC_ID)
    given = (yield from _assign_ids(found)) if cluster.settings.inter_broker_protocol_version.gives_topic_ids else {}
    loaded = []
    for name, assignment in found.items():
        is_large = len(assignment.partitions) > _LARGE_TOPIC
        if is_large:
            yield from pause()  # to decode it took its time
        cluster.add_topic(name, given.get(name) or _topic_id(name, assignment))
        parts_of = assignments(assignment)
        for some in pieces(parts_of):
            if is_large:
                yield from pause()
            for index in some:
                partition = TopicPartition(name, index)
                cluster.set_assignment(partition, parts_of[index])
                loaded.append(partition)
    return loaded


def read_topic(name: str) -> Steps[dict[int, ReplicaAssignment] | None]:
    """The assignments in a topic's znode by partition index, None when it is absent or unreadable."""
    (znode,) = yield from read((paths.topic(name),), watch=True)
    if znode is None:
        return None
    try:
        return assignments(TopicAssignment.decode(znode[0]))
    except MalformedZnodeError as problem:
        logger.error("the change of %s is ignored until it is mended: %s", paths.topic(name), problem)
        return None


def assignments(topic: TopicAssignment) -> dict[int, ReplicaAssignment]:
    """The three maps of the znode as one; a partition without any replica is left out."""
    return {
        index: ReplicaAssignment(replicas, topic.adding.get(index, ()), topic.removing.get(index, ()))
        for index, replicas in sorted(topic.partitions.items())
        if replicas
    }


def topic_write(topic: Topic) -> Write:
    """Rewrite a topic's znode from memory, whatever is in it."""
    return Write(paths.topic(topic.name), _merge_assignments(topic, {}, None).encode())


def write_reassigned(
    cluster: ClusterState, changed: Mapping[TopicPartition, ReplicaAssignment]
) -> Steps[dict[str, TopicAssignment | StoreError]]:
    """Write these assignments into the znodes of their topics; what each has now, or why it was not written.

    Partitions that were added to a znode and are not in memory yet stay in it: whoever added them has been told so. Kafka writes what
    it has in memory.
    """

    def change(topic: Topic) -> Change:
        return lambda current: _merge_assignments(topic, changed, current)

    names = sorted({partition.topic for partition in changed})
    return (yield from _rewrite({name: change(cluster.topics[name]) for name in names}))


def _merge_assignments(
    topic: Topic, changed: Mapping[TopicPartition, ReplicaAssignment], znode: TopicAssignment | None
) -> TopicAssignment:
    known = {
        index: changed.get(TopicPartition(topic.name, index), state.assignment)
        for index, state in topic.partitions.items()
    }
    there = TopicAssignment({}) if znode is None else znode
    return TopicAssignment(
        {**there.partitions, **{index: assignment.replicas for index, assignment in known.items()}},
        there.topic_id if topic.topic_id == NO_TOPIC_ID else topic_id_to_text(topic.topic_id),
        {**there.adding, **{index: assignment.adding for index, assignment in known.items()}},
        {**there.removing, **{index: assignment.removing for index, assignment in known.items()}},
    )


def _rewrite(changes: Mapping[str, Change]) -> Steps[dict[str, TopicAssignment | StoreError]]:
    """Change the znodes of topics as they are; what each has now, or why it was not written."""
    outcomes: dict[str, TopicAssignment | StoreError] = {}
    left = list(changes)
    while left:
        znodes = yield from read([paths.topic(name) for name in left])
        wanted: dict[str, TopicAssignment] = {}
        writes = []
        for name, znode in zip(left, znodes, strict=True):
            path = paths.topic(name)
            if znode is None:
                outcomes[name] = NoNodeError(path)
                continue
            try:
                current = TopicAssignment.decode(znode[0])
            except MalformedZnodeError as problem:
                logger.error("%s cannot be read and is written from memory: %s", path, problem)
                current = None
            wanted[name] = changes[name](current)
            writes.append(Write(path, wanted[name].encode(), znode[1].version))
        results = dict(zip(wanted, (yield from write(writes)), strict=True))
        left = [name for name, result in results.items() if isinstance(result, BadVersionError)]
        outcomes |= {
            name: result if isinstance(result, StoreError) else wanted[name]
            for name, result in results.items()
            if name not in left
        }
    return outcomes


def _assign_ids(found: dict[str, TopicAssignment]) -> Steps[dict[str, bytes]]:
    """Write random ids into the topics that have none (KIP-516)."""
    nameless = [name for name, topic in found.items() if topic.topic_id is None]
    drawn = dict(zip(nameless, (yield from draw_topic_ids(len(nameless))), strict=True))

    def change(name: str) -> Change:
        def completed(current: TopicAssignment | None) -> TopicAssignment:
            topic = current or found[name]
            topic_id = topic.topic_id or topic_id_to_text(drawn[name])
            return TopicAssignment(topic.partitions, topic_id, topic.adding, topic.removing)

        return completed

    given = {}
    for name, outcome in (yield from _rewrite({name: change(name) for name in nameless})).items():
        if isinstance(outcome, NoNodeError):
            del found[name]  # deleted since it was read
        elif isinstance(outcome, StoreError):
            given[name] = drawn[name]
        else:
            found[name], given[name] = outcome, _topic_id(name, outcome)
    return given


def _topic_id(name: str, topic: TopicAssignment) -> bytes:
    if topic.topic_id is None:
        return NO_TOPIC_ID
    try:
        return topic_id_from_text(topic.topic_id)
    except ValueError as problem:
        logger.error("topic %s goes without an id: %s", name, problem)
        return NO_TOPIC_ID


def random_topic_id(rng: random.Random) -> bytes:
    """A version 4 UUID whose text does not begin with a dash, which would look like an option to tools."""
    while True:
        topic_id = uuid.UUID(bytes=rng.randbytes(16), version=4).bytes
        if not topic_id_to_text(topic_id).startswith("-"):
            return topic_id
