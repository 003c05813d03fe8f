"""Topics that nobody uses, so that a cluster has many partitions: made by a client that survives a change of the controller.

Each partition stands at the brokers in turn, so that leaders are spread evenly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, NamedTuple, Protocol

from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition  # type: ignore[attr-defined]
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.local.broker_process import wait_until

PREFIX: Final = "idle-"
PORTION: Final = 1000
"""Partitions that are made by one request."""

ROUND_TIMEOUT_S: Final = 180.0
SET_UP_TIMEOUT_S: Final = 1800.0
REQUEST_TIMEOUT_S: Final = 60.0
_PASSING: Final = (
    KafkaError.NOT_CONTROLLER,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
)


class PartitionMetadata(Protocol):
    """A partition in librdkafka's metadata."""

    leader: int
    replicas: Sequence[int]
    isrs: Sequence[int]


class PatientAdmin:
    """Asks the controller until it does what it is asked for; a client that knows a former controller is replaced."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._client = self._new_client()

    def wait_for_controller(self) -> None:
        """Wait until metadata names one. Raises TimeoutError."""
        wait_until(self._has_controller, "a controller that clients know", ROUND_TIMEOUT_S)

    def _has_controller(self) -> bool:
        try:
            return self._client.list_topics(timeout=REQUEST_TIMEOUT_S).controller_id >= 0
        except KafkaException:  # the client asked a stand-in, which serves no clients
            self._client = self._new_client()
            return False

    def create(self, *topics: NewTopic) -> None:
        """Create topics with one request, whether they all exist already or none."""

        def request(admin: AdminClient) -> Iterable[Future[object]]:
            return admin.create_topics(list(topics), request_timeout=REQUEST_TIMEOUT_S, operation_timeout=1).values()

        self._ask(request, KafkaError.TOPIC_ALREADY_EXISTS)

    def delete(self, topic: str) -> None:
        self._ask(
            lambda admin: admin.delete_topics([topic], request_timeout=REQUEST_TIMEOUT_S).values(),
            KafkaError.UNKNOWN_TOPIC_OR_PART,
        )

    def elect_preferred(self, partitions: Sequence[TopicPartition]) -> None:
        self._ask(lambda admin: [admin.elect_leaders(ElectionType.PREFERRED, list(partitions))])

    def partitions_of(self, topic: str | None = None) -> dict[str, dict[int, PartitionMetadata]]:
        """Return what some broker tells of a topic, or of all."""
        found = self._client.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics
        return {name: known.partitions for name, known in found.items()}

    def _ask(self, request: Callable[[AdminClient], Iterable[Future[object]]], was_done: int | None = None) -> None:
        """Ask until every future of the request has its result. `was_done`: the error of a second time."""

        def is_done() -> bool:
            done = True
            for future in list(request(self._client)):
                try:
                    future.result(ROUND_TIMEOUT_S)
                except KafkaException as problem:
                    code = problem.args[0].code()
                    if code not in (was_done, *_PASSING):
                        raise
                    done = done and code == was_done
            if not done:
                self._client = self._new_client()
            return done

        wait_until(is_done, "a request to the controller", ROUND_TIMEOUT_S)

    def _new_client(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._servers, "log_level": 0})


class Shape(NamedTuple):
    """Of the idle topics: so many partitions in all, replicas of each, and partitions of each topic but the last."""

    partitions: int
    factor: int = 3
    per_topic: int = PORTION


def assignments(shape: Shape, brokers: Sequence[int]) -> dict[str, list[list[int]]]:
    """Return the replicas of each partition, by topic in the order of creation; each broker is first in turn."""
    placed = [
        [brokers[(number + place) % len(brokers)] for place in range(shape.factor)]
        for number in range(shape.partitions)
    ]
    return {
        f"{PREFIX}{first // shape.per_topic}": placed[first : first + shape.per_topic]
        for first in range(0, shape.partitions, shape.per_topic)
    }


def requests_for(wanted: Mapping[str, list[list[int]]]) -> list[list[NewTopic]]:
    """Return the topics of each request: as many as have a portion of partitions together, one at least."""
    requests: list[list[NewTopic]] = []
    in_last = PORTION
    for name, replicas in wanted.items():
        if in_last + len(replicas) > PORTION:
            requests.append([])
            in_last = 0
        requests[-1].append(NewTopic(name, len(replicas), replica_assignment=replicas))
        in_last += len(replicas)
    return requests


def create_idle(admin: PatientAdmin, wanted: Mapping[str, list[list[int]]]) -> None:
    """Create the topics, and wait until some broker tells that all their partitions are led by their first replicas and in sync."""
    for topics in requests_for(wanted):
        admin.create(*topics)
        newest = topics[-1].topic
        wait_until(lambda: _is_topic_spread(admin, newest, wanted), f"partitions of {newest}", SET_UP_TIMEOUT_S)  # noqa: B023
    count = sum(map(len, wanted.values()))
    wait_until(lambda: is_spread(admin, count), f"{count} idle partitions", SET_UP_TIMEOUT_S)


def spread_leaders(admin: PatientAdmin, count: int) -> bool:
    """True if `count` idle partitions are as they were created; asks for elections where only the leader is not."""
    known = _idle_partitions(admin)
    if _count_spread(each for partitions in known.values() for each in partitions.values()) == count:
        return True
    moved = [
        TopicPartition(name, number)
        for name, partitions in known.items()
        for number, each in partitions.items()
        if each.leader != each.replicas[0] and len(each.isrs) == len(each.replicas)
    ]
    if moved:
        admin.elect_preferred(moved)
    return False


def is_spread(admin: PatientAdmin, count: int) -> bool:
    """True if `count` idle partitions are led by their first replicas and in sync."""
    return _count_spread(each for known in _idle_partitions(admin).values() for each in known.values()) == count


def _is_topic_spread(admin: PatientAdmin, topic: str, wanted: Mapping[str, list[list[int]]]) -> bool:
    return _count_spread(admin.partitions_of(topic)[topic].values()) == len(wanted[topic])


def _count_spread(partitions: Iterable[PartitionMetadata]) -> int:
    """Return how many partitions are led by their first replicas and in sync; -1 when one is not."""
    count = 0
    for each in partitions:
        if each.leader != each.replicas[0] or len(each.isrs) != len(each.replicas):
            return -1
        count += 1
    return count


def _idle_partitions(admin: PatientAdmin) -> dict[str, dict[int, PartitionMetadata]]:
    return {name: known for name, known in admin.partitions_of().items() if name.startswith(PREFIX)}
