"""Administration of partitions: more of them, their leaders, and the brokers that hold them. A part of `Admin`.

All of it is the controller's work. What has been done is not asked for again when the controller moves in the middle of a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from kafkalite.client.admin.calls import AdminCalls, Results
from kafkalite.client.errors import raise_error
from kafkalite.client.plain_values import PlainValues, with_known_fields
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition, group_by_topic

ElectionType = Literal["preferred", "unclean"]
_ELECTION_TYPES: Final[dict[ElectionType, int]] = {"preferred": 0, "unclean": 1}


@with_known_fields
@dataclass(frozen=True, slots=True)
class NewPartitions:
    """How many partitions a topic is to have in all; `replica_assignments` are the replicas of the new ones, in order."""

    total_count: int
    replica_assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class PartitionReassignment(PlainValues):
    """A move that is going on: all brokers that hold replicas now, those that are to come and those that are to go (KIP-455)."""

    topic_partition: TopicPartition
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class PartitionAdmin(AdminCalls):
    """Adds partitions, elects leaders and reassigns replicas, at the controller."""

    async def create_partitions(
        self,
        new_partitions: Mapping[str, NewPartitions | int],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Give topics more partitions, by total number; with `validate_only` only check that it could be done.

        AdminError with UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, … for topics that failed.
        """
        m = messages.create_partitions_request
        wanted = {name: NewPartitions(each) if isinstance(each, int) else each for name, each in new_partitions.items()}
        results = Results("adding partitions to")

        async def attempt() -> None:
            request = m.CreatePartitionsRequest(
                topics=[
                    m.CreatePartitionsTopic(
                        name=name,
                        count=each.total_count,
                        assignments=None
                        if each.replica_assignments is None
                        else [m.CreatePartitionsAssignment(broker_ids=list(ids)) for ids in each.replica_assignments],
                    )
                    for name, each in wanted.items()
                    if results.lacks(name)
                ],
                timeout_ms=self._timeout(timeout_ms),
                validate_only=validate_only,
            )
            response = await self._ask_controller(request)
            results.record_answers((answer.name, answer, None) for answer in response.results)

        await self._retrying(attempt, "adding partitions")
        results.raise_failures()

    async def elect_leaders(
        self,
        election_type: ElectionType = "preferred",
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, bool]:
        """Elect leaders: the "preferred" replica, or for partitions without one any replica that lives ("unclean", may lose records).

        Without `partitions`: wherever an election is needed. True for partitions with a new leader, False where none was needed
        (KIP-460). AdminError with PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, …
        """
        if election_type not in _ELECTION_TYPES:
            raise ValueError(f"no election type {election_type!r}; there are {', '.join(_ELECTION_TYPES)}")
        m = messages.elect_leaders_request
        wanted = None if partitions is None else [TopicPartition(*each) for each in partitions]
        if wanted == []:
            return {}
        results = Results("electing a leader of", successes=[ErrorCode.ELECTION_NOT_NEEDED])

        async def attempt() -> None:
            left = None if wanted is None else group_by_topic(filter(results.lacks, wanted))
            request = m.ElectLeadersRequest(
                election_type=_ELECTION_TYPES[election_type],
                topic_partitions=None
                if left is None
                else [m.TopicPartitions(topic=name, partitions=numbers) for name, numbers in left.items()],
                timeout_ms=self._timeout(timeout_ms),
            )
            response = await self._ask_controller(request)
            raise_error(response, "electing leaders")
            results.record_answers(
                (each := TopicPartition(topic.topic, answer.partition_id), answer, (each, not answer.error_code))
                for topic in response.replica_election_results
                for answer in topic.partition_result
            )

        await self._retrying(attempt, "electing leaders")
        results.raise_failures()
        return dict(results.done.values())

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout_ms: int | None = None
    ) -> None:
        """Begin to move partitions to other brokers, the first one being the preferred leader; None cancels a move (KIP-455).

        The moves have begun, not ended, when this returns. AdminError with INVALID_REPLICA_ASSIGNMENT,
        NO_REASSIGNMENT_IN_PROGRESS, UNKNOWN_TOPIC_OR_PARTITION, … for those that failed.
        """
        m = messages.alter_partition_reassignments_request
        wanted = {TopicPartition(*each): target for each, target in targets.items()}
        results = Results("reassigning")

        async def attempt() -> None:
            left = group_by_topic(filter(results.lacks, wanted))
            request = m.AlterPartitionReassignmentsRequest(
                timeout_ms=self._timeout(timeout_ms),
                topics=[
                    m.ReassignableTopic(
                        name=name,
                        partitions=[
                            m.ReassignablePartition(
                                partition_index=number,
                                replicas=None
                                if (target := wanted[TopicPartition(name, number)]) is None
                                else list(target),
                            )
                            for number in numbers
                        ],
                    )
                    for name, numbers in left.items()
                ],
            )
            response = await self._ask_controller(request)
            raise_error(response, "reassigning partitions")
            results.record_answers(
                (each := TopicPartition(topic.name, answer.partition_index), answer, each)
                for topic in response.responses
                for answer in topic.partitions
            )

        await self._retrying(attempt, "reassigning partitions")
        results.raise_failures()

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the moves that are going on, of all partitions or of some; those that do not move are not in it."""
        m = messages.list_partition_reassignments_request
        wanted = None if partitions is None else group_by_topic(TopicPartition(*each) for each in partitions)
        request = m.ListPartitionReassignmentsRequest(
            timeout_ms=self._timeout(timeout_ms),
            topics=None
            if wanted is None
            else [
                m.ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
                for name, numbers in wanted.items()
            ],
        )

        async def attempt() -> Any:
            response = await self._ask_controller(request)
            raise_error(response, "listing reassignments")
            return response

        found = {}
        for topic in (await self._retrying(attempt, "listing reassignments")).topics:
            for each in topic.partitions:
                name = TopicPartition(topic.name, each.partition_index)
                found[name] = PartitionReassignment(
                    name, tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
                )
        return dict(sorted(found.items()))
