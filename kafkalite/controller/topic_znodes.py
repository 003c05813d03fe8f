"""Topic znodes: reading them with their watches armed, giving ids to topics written without one, writing them back."""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Mapping, Sequence

from kafkalite.controller.assignment import ReplicaAssignment
from kafkalite.controller.cluster_state import ClusterState, Topic
from kafkalite.controller.steps import Steps, draw_topic_ids, pause, pieces, read, write
from kafkalite.types import NO_TOPIC_ID, TopicPartition, topic_id_from_text, topic_id_to_text
from zk import paths
from zk.store import NoNodeError, Write
from zk.znodes import MalformedZnodeError, TopicAssignment

logger = logging.getLogger(__name__)

_LARGE_TOPIC = 300
"""Partitions; what has more is taken in by pieces, with turns for others in between."""


def load_topics(cluster: ClusterState, names: Sequence[str]) -> Steps[list[TopicPartition]]:
    """Read topics that are new to `cluster` into it; their partitions. One that vanished meanwhile is left out."""
    loaded: list[TopicPartition] = []
    for some in pieces(names):
        loaded += yield from _load(cluster, some)
        yield from pause()
    return loaded


def _load(cluster: ClusterState, names: Sequence[str]) -> Steps[list[TopicPartition]]:
    znodes = yield from read([paths.topic(name) for name in names], watch=True)
    found: dict[str, TopicAssignment] = {}
    for name, znode in zip(names, znodes, strict=True):
        if znode is not None:
            try:
                found[name] = TopicAssignment.decode(znode[0])
            except MalformedZnodeError as problem:
                logger.error("%s has no partitions until it is mended: %s", paths.topic(name), problem)
                cluster.add_topic(name, NO_TOPIC_ID)
    given = (yield from _give_ids(found)) if cluster.settings.inter_broker_protocol_version.gives_topic_ids else {}
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


def topic_write(topic: Topic, changed: Mapping[TopicPartition, ReplicaAssignment]) -> Write:
    """Rewrite a topic's znode from memory with these changes; Kafka does so whatever version it has."""
    current = {
        index: changed.get(TopicPartition(topic.name, index), state.assignment)
        for index, state in topic.partitions.items()
    }
    return Write(
        paths.topic(topic.name),
        TopicAssignment(
            {index: assignment.replicas for index, assignment in current.items()},
            None if topic.topic_id == NO_TOPIC_ID else topic_id_to_text(topic.topic_id),
            {index: assignment.adding for index, assignment in current.items()},
            {index: assignment.removing for index, assignment in current.items()},
        ).encode(),
    )


def _give_ids(found: dict[str, TopicAssignment]) -> Steps[dict[str, bytes]]:
    """Write random ids into the topics that have none (KIP-516)."""
    nameless = [name for name, topic in found.items() if topic.topic_id is None]
    drawn = yield from draw_topic_ids(len(nameless))
    writes = []
    for name, topic_id in zip(nameless, drawn, strict=True):
        topic = found[name]
        completed = TopicAssignment(topic.partitions, topic_id_to_text(topic_id), topic.adding, topic.removing)
        writes.append(Write(paths.topic(name), completed.encode()))
    given = {}
    for name, topic_id, result in zip(nameless, drawn, (yield from write(writes)), strict=True):
        if isinstance(result, NoNodeError):
            del found[name]  # deleted since it was read
        else:
            given[name] = topic_id
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
