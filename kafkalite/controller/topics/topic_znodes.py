"""Topic znodes: reading them with watches, assigning topic ids to those without one, writing reassignments."""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from kafkalite.controller.assignment import ReplicaAssignment, make_assignment
from kafkalite.controller.cluster_state import ClusterState, Topic
from kafkalite.controller.steps import Pause, Steps, draw_topic_ids, pieces, read, write
from kafkalite.types import NO_TOPIC_ID, TopicPartition, topic_id_from_text, topic_id_to_text
from zk import paths
from zk.store import BadVersionError, NoNodeError, StoreError, Write
from zk.znodes import MalformedZnodeError, TopicAssignment

logger = logging.getLogger(__name__)

Change: TypeAlias = Callable[[TopicAssignment | None], TopicAssignment]
"""Returns the new content of a topic's znode for its present one, None when that is unreadable."""

_LARGE_TOPIC = 300
"""Partitions of a topic above which it is loaded in pieces, with pauses for the event loop."""


def load_topics(cluster: ClusterState, names: Sequence[str]) -> Steps[list[TopicPartition]]:
    """Add topics that are new to `cluster` from their znodes; return their partitions. Topics deleted meanwhile are left out."""
    loaded: list[TopicPartition] = []
    for some in pieces(names):
        loaded += yield from _load_some(cluster, some)
        yield Pause()
    return loaded


def _load_some(cluster: ClusterState, names: Sequence[str]) -> Steps[list[TopicPartition]]:
    znodes = yield from read([paths.topic(name) for name in names], watch=True)
    found: dict[str, TopicAssignment] = {}
    for name, znode in zip(names, znodes, strict=True):
        if znode is not None:
            try:
                found[name] = TopicAssignment.decode(znode[0])
            except MalformedZnodeError as problem:
                logger.error(
                    "%s is unreadable, the topic has no partitions until it is repaired: %s", paths.topic(name), problem
                )
                cluster.add_topic(name, NO_TOPIC_ID)
    given = (yield from _assign_ids(found)) if cluster.settings.inter_broker_protocol_version.gives_topic_ids else {}
    loaded = []
    for name, assignment in found.items():
        is_large = len(assignment.partitions) > _LARGE_TOPIC
        if is_large:
            yield Pause()  # decoding it took several milliseconds
        cluster.add_topic(name, given.get(name) or _topic_id(name, assignment))
        parts_of = assignments(assignment)
        for some in pieces(parts_of):
            if is_large:
                yield Pause()
            for index in some:
                partition = TopicPartition(name, index)
                cluster.set_assignment(partition, parts_of[index])
                loaded.append(partition)
    return loaded


def read_topic(name: str) -> Steps[dict[int, ReplicaAssignment] | None]:
    """Return the assignments in a topic's znode by partition index, None when it is absent or unreadable."""
    (znode,) = yield from read((paths.topic(name),), watch=True)
    if znode is None:
        return None
    try:
        return assignments(TopicAssignment.decode(znode[0]))
    except MalformedZnodeError as problem:
        logger.error("%s is unreadable, its change is ignored until it is repaired: %s", paths.topic(name), problem)
        return None


def assignments(topic: TopicAssignment) -> dict[int, ReplicaAssignment]:
    """Return the assignments of a topic by partition index; partitions without replicas are left out."""
    return {
        index: make_assignment(replicas, topic.adding.get(index, ()), topic.removing.get(index, ()))
        for index, replicas in sorted(topic.partitions.items())
        if replicas
    }


def topic_write(topic: Topic) -> Write:
    """Return the operation that overwrites a topic's znode from memory."""
    return Write(paths.topic(topic.name), _merge_assignments(topic, {}, None).encode())


def encode_reassigned(topic: Topic, changed: Mapping[TopicPartition, ReplicaAssignment]) -> bytes:
    """Return the content of a topic's znode with these assignments, as far as it is in memory."""
    return _merge_assignments(topic, changed, None).encode()


def write_reassigned(
    cluster: ClusterState, changed: Mapping[TopicPartition, ReplicaAssignment]
) -> Steps[dict[str, TopicAssignment | StoreError]]:
    """Write assignments into the znodes of their topics; return the new content or the error by topic.

    Partitions that were added to a znode and are not in memory yet stay in it, because their creation has been acknowledged. Kafka
    writes what it has in memory.
    """

    names = sorted({partition.topic for partition in changed})
    return (yield from _rewrite({name: partial(_merge_assignments, cluster.topics[name], changed) for name in names}))


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
    """Apply changes to topics' znodes by conditional writes, repeated on conflict; return the new content or the error by topic."""
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
                logger.error("%s is unreadable and will be overwritten from memory: %s", path, problem)
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
    """Write random ids into topics that have none (KIP-516); update `found` and return the ids by name."""
    without_id = [name for name, topic in found.items() if topic.topic_id is None]
    drawn = dict(zip(without_id, (yield from draw_topic_ids(len(without_id))), strict=True))

    def add_id(name: str, current: TopicAssignment | None) -> TopicAssignment:
        topic = current or found[name]
        return replace(topic, topic_id=topic.topic_id or topic_id_to_text(drawn[name]))

    given = {}
    for name, outcome in (yield from _rewrite({name: partial(add_id, name) for name in without_id})).items():
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
        logger.error("topic %s is loaded without its id, which is malformed: %s", name, problem)
        return NO_TOPIC_ID


def random_topic_id(rng: random.Random) -> bytes:
    """Return a version 4 UUID whose text does not start with a dash, which tools would take for an option."""
    while True:
        topic_id = uuid.UUID(bytes=rng.randbytes(16), version=4).bytes
        if not topic_id_to_text(topic_id).startswith("-"):
            return topic_id
