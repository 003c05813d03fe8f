"""Validation of CreateTopics and CreatePartitions, and the placement of replicas, without I/O.

Error codes, their order and their messages are those of Kafka's ZkAdminManager and AdminZkClient.
"""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.topic import TopicConfig
from kafkalite.controller.requests import NOT_GIVEN, NewPartitions, NewTopic
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.types import BrokerId
from zk import paths, placement
from zk.size_limits import list_bytes, name_bytes
from zk.znodes import TopicAssignment

logger = logging.getLogger(__name__)

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
MAX_NAME_LENGTH = 249
PARTITIONS_MAX = 10_000
"""Partitions of one topic. Kafka creates as many as fit into a znode, some 50,000; without ZooKeeper it refuses more than 10,000 in one
request, with the same error (`ReplicationControlManager`)."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")

Racks = Mapping[BrokerId, str | None]
"""The live brokers in the order of their use, with their racks."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A validated topic: replicas by partition, and its settings as text."""

    name: str
    replicas: Mapping[int, tuple[BrokerId, ...]]
    overrides: Mapping[str, str]

    @property
    def replication_factor(self) -> int:
        return len(self.replicas[0])


def plan_topic(topic: NewTopic, brokers: Racks, config: BrokerConfig, rng: random.Random) -> TopicPlan:
    """Validate a new topic and place its replicas. Raises KafkaError for counts, assignment, name or settings, in Kafka's order."""
    replicas: Mapping[int, tuple[BrokerId, ...]]
    overrides: dict[str, str] = {}
    for name, value in topic.configs:
        if value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
        overrides[name] = value
    counts_given = topic.partition_count != NOT_GIVEN or topic.replication_factor != NOT_GIVEN
    if counts_given and topic.assignments:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        )
    check_count(max(topic.partition_count, len(topic.assignments)))
    if topic.assignments:
        replicas = _check_manual_assignment(topic.assignments)
    else:
        count = config.num_partitions if topic.partition_count == NOT_GIVEN else topic.partition_count
        factor = topic.replication_factor
        replicas = _place_replicas(
            brokers, count, config.default_replication_factor if factor == NOT_GIVEN else factor, rng
        )
    check_name(topic.name)
    TopicConfig.from_overrides(config.topic_defaults, overrides)
    return TopicPlan(topic.name, replicas, overrides)


def check_name(name: str) -> None:
    """Raise KafkaError INVALID_TOPIC_EXCEPTION for an illegal name, INVALID_REQUEST for a reserved one."""
    problem = None
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = "'.' or '..' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        problem = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif _LEGAL_NAME.fullmatch(name) is None:
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    if name == CLUSTER_METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")


def check_count(partition_count: int) -> None:
    """Raise KafkaError POLICY_VIOLATION for more than PARTITIONS_MAX partitions."""
    if partition_count > PARTITIONS_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def name_error(name: str) -> ErrorCode:
    """Return NONE for a legal topic name, else the error of `check_name`."""
    try:
        check_name(name)
    except KafkaError as problem:
        return problem.code
    return ErrorCode.NONE


def is_legal(name: str) -> bool:
    """True if a topic can have this name; paths of illegal ones may be those of other znodes, or none that ZooKeeper accepts."""
    return name_error(name) is not ErrorCode.INVALID_TOPIC_EXCEPTION


def legal_names(names: Iterable[str]) -> list[str]:
    """Return those children of /brokers/topics that can be topics; brokers could not create directories for the others."""
    legal = []
    for name in names:
        if not is_legal(name):
            logger.error("%s is ignored, no topic can have that name; delete it", paths.topic(name))
        else:
            legal.append(name)
    return legal


class TopicNames:
    """Names of existing topics and of those marked for deletion, for validating one request.

    Read at the request's start; `TopicLocks` adds what other requests create and mark meanwhile.
    """

    def __init__(self) -> None:
        self._existing: set[str] = set()
        self._marked: set[str] = set()
        self._by_metric_name: dict[str, list[str]] = {}
        self.list_bytes = list_bytes(())
        """Size of the list of existing topics."""

    def add(self, names: Iterable[str]) -> None:
        """Add existing topics."""
        for name in names:
            if name not in self._existing:
                self._existing.add(name)
                self.list_bytes += name_bytes(name)
                self._by_metric_name.setdefault(metric_name(name), []).append(name)

    def mark(self, names: Iterable[str]) -> None:
        """Add topics marked for deletion."""
        self._marked.update(names)

    def is_marked(self, name: str) -> bool:
        return name in self._marked

    def check_free(self, name: str) -> None:
        """Raise KafkaError TOPIC_ALREADY_EXISTS, or INVALID_TOPIC_EXCEPTION for a name that differs from another only in '.' and '_'."""
        if name in self._existing:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if name in self._marked:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
        colliding = self._by_metric_name.get(metric_name(name))
        if colliding:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topics: {', '.join(sorted(colliding))}",
            )


def plan_partitions(
    request: NewPartitions, current: TopicAssignment, brokers: Racks
) -> dict[int, tuple[BrokerId, ...]]:
    """Return the replicas of the partitions to be added to `current`. Raises KafkaError."""
    if current.adding or current.removing:
        message = f"A partition reassignment is in progress for the topic '{request.name}'."
        raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, message)
    present = len(current.partitions)
    check_count(request.count)
    if request.count < present:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {present} partitions, which is higher than the requested {request.count}.",
        )
    if request.count == present:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partitions.")
    factor = len(current.partitions.get(0, ()))
    if request.assignments is None:
        _check_factor(factor, len(brokers))
        try:
            return placement.extend(current.partitions, list(brokers), request.count, racks=_racks(brokers))
        except placement.PlacementError as problem:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, str(problem)) from problem
    return _check_added_assignment(request.assignments, present, request.count, factor, brokers)


def metric_name(name: str) -> str:
    return name.replace(".", "_")


def _place_replicas(brokers: Racks, count: int, factor: int, rng: random.Random) -> Mapping[int, tuple[BrokerId, ...]]:
    if count < 1:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    _check_factor(factor, len(brokers))
    start, shift = rng.randrange(len(brokers)), rng.randrange(len(brokers))
    try:
        return placement.assign(list(brokers), count, factor, start=start, shift=shift, racks=_racks(brokers))
    except placement.PlacementError as problem:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, str(problem)) from problem


def _check_factor(factor: int, broker_count: int) -> None:
    if factor < 1:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if factor > broker_count:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {factor} larger than available brokers: {broker_count}.",
        )


def _racks(brokers: Racks) -> dict[BrokerId, str]:
    return {broker: rack for broker, rack in brokers.items() if rack is not None}


def _check_manual_assignment(
    assignments: Sequence[tuple[int, tuple[BrokerId, ...]]],
) -> dict[int, tuple[BrokerId, ...]]:
    """Validate replicas given in CreateTopics. Brokers that do not exist are accepted, as in Kafka."""
    invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    replicas = dict(sorted(assignments, key=itemgetter(0)))
    if list(replicas) != list(range(len(assignments))):
        raise KafkaError(invalid, "Partitions should be a consecutive 0-based integer sequence")
    if any(not brokers for brokers in replicas.values()):
        raise KafkaError(invalid, "A replica list is empty: each partition needs at least one broker")
    if any(min(brokers) < 0 for brokers in replicas.values()):
        raise KafkaError(invalid, "A replica list has a negative broker id")
    if any(len(set(brokers)) != len(brokers) for brokers in replicas.values()):
        raise KafkaError(invalid, f"Duplicate replica assignment found: {_format_replicas(replicas)}")
    if len({len(brokers) for brokers in replicas.values()}) > 1:
        raise KafkaError(invalid, "All partitions should have the same number of replicas")
    return replicas


def _check_added_assignment(
    assignments: Sequence[tuple[BrokerId, ...]], present: int, count: int, factor: int, brokers: Racks
) -> dict[int, tuple[BrokerId, ...]]:
    invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if len(assignments) != count - present:
        raise KafkaError(
            invalid,
            f"Increasing the number of partitions by {count - present} but {len(assignments)} assignments provided.",
        )
    unknown = sorted({broker for replicas in assignments for broker in replicas} - set(brokers))
    if unknown:
        raise KafkaError(invalid, f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}.")
    added = dict(enumerate(assignments, start=present))
    for index, replicas in added.items():
        if len(set(replicas)) != len(replicas):
            raise KafkaError(
                invalid, f"Duplicate brokers not allowed in replica assignment: {_format_replicas({index: replicas})}"
            )
    odd = [index for index, replicas in added.items() if len(replicas) != factor]
    if odd:
        raise KafkaError(
            invalid,
            f"Inconsistent replication factor between partitions, partition 0 has {factor} while partitions {odd} "
            f"have replication factors {[len(added[index]) for index in odd]}, respectively.",
        )
    return added


def _format_replicas(replicas: Mapping[int, Sequence[BrokerId]]) -> str:
    return ", ".join(f"{index} -> [{', '.join(map(str, brokers))}]" for index, brokers in replicas.items())
