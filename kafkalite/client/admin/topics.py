"""Administration of topics, and what brokers tell of the cluster. A part of `Admin`."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkalite.client.admin.calls import AdminCalls, Results
from kafkalite.client.cluster.view import TOPICS_AT_ONCE, BrokerNode, ClusterView, PartitionView, TopicView
from kafkalite.client.errors import ClientError, raise_error
from kafkalite.client.plain_values import PlainValues, with_known_fields
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import topic_id_to_text


@with_known_fields
@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created. -1 stands for the brokers' defaults; `replica_assignments` gives the replicas of each partition."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[int]] | None = None
    topic_configs: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CreatedTopic(PlainValues):
    """What a broker tells of a topic that it created; the id is empty and numbers are -1 where it is too old to tell."""

    name: str
    topic_id: str
    num_partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class TopicDescription(PlainValues):
    """A topic with its partitions in order; `topic_id` is 22 characters of base64."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionView, ...]

    @property
    def replication_factor(self) -> int:
        """Return the number of replicas of the first partition; 0 without partitions."""
        return len(self.partitions[0].replicas) if self.partitions else 0

    def partition(self, number: int) -> PartitionView | None:
        """Return one of them; None when there is none of that number."""
        place = bisect_left(self.partitions, number, key=lambda each: each.partition)
        found = self.partitions[place] if place < len(self.partitions) else None
        return found if found is not None and found.partition == number else None


@dataclass(frozen=True, slots=True)
class ClusterDescription(PlainValues):
    """The cluster as its brokers tell; `controller_id` is -1 while there is none."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerNode, ...]


class TopicAdmin(AdminCalls):
    """Creates, deletes, lists and describes topics, and describes the cluster."""

    async def create_topics(
        self, new_topics: Iterable[NewTopic], *, timeout_ms: int | None = None, validate_only: bool = False
    ) -> list[CreatedTopic]:
        """Create topics; with `validate_only` only check that it could be done.

        AdminError with TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_CONFIG, … for those that failed.
        """
        m = messages.create_topics_request
        wanted = {topic.name: topic for topic in new_topics}
        results = Results("creating topic")

        async def attempt() -> None:
            left = [topic for name, topic in wanted.items() if results.lacks(name)]
            request = m.CreateTopicsRequest(
                topics=[_creatable(topic) for topic in left],
                timeout_ms=self._timeout(timeout_ms),
                validate_only=validate_only,
            )
            response = await self._ask_controller(request)
            results.record_answers((answer.name, answer, _created_topic(answer)) for answer in response.topics)
            results.ensure_complete(topic.name for topic in left)

        await self._retrying(attempt, "creating topics")
        results.raise_failures()
        return [results.done[name] for name in wanted]

    async def delete_topics(self, topics: Iterable[str], *, timeout_ms: int | None = None) -> None:
        """Delete topics by name. AdminError with UNKNOWN_TOPIC_OR_PARTITION, TOPIC_DELETION_DISABLED, … for those that failed."""
        m = messages.delete_topics_request
        wanted = list(dict.fromkeys(topics))
        results = Results("deleting topic")

        async def attempt() -> None:
            left = [name for name in wanted if results.lacks(name)]
            request = m.DeleteTopicsRequest(
                topics=[m.DeleteTopicState(name=name) for name in left],
                timeout_ms=self._timeout(timeout_ms),
            )
            response = await self._ask_controller(request)
            results.record_answers((answer.name, answer, None) for answer in response.responses)
            results.ensure_complete(left)

        await self._retrying(attempt, "deleting topics")
        results.raise_failures()

    async def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """Return names of the topics that this client may see, sorted."""
        view = await self._cluster.fetch_all_topics()
        return sorted(name for name, topic in view.topics.items() if include_internal or not topic.is_internal)

    async def describe_topics(self, topics: Iterable[str] | None = None) -> list[TopicDescription]:
        """Return topics with partitions, leaders and replicas; all of them by default. UNKNOWN_TOPIC_OR_PARTITION."""
        if topics is None:
            view = await self._cluster.fetch_all_topics()
            found: list[TopicDescription] = []
            for name in sorted(view.topics):
                if len(found) % TOPICS_AT_ONCE == TOPICS_AT_ONCE - 1:
                    await asyncio.sleep(0)
                found.append(describe_topic_view(view.topics[name]))
            return found
        names = list(dict.fromkeys(topics))
        view = await self._cluster.fetch_topics(names)
        return [describe_topic_view(view.topics[name]) for name in names]

    async def describe_topics_at(self, broker: int | None, topics: Iterable[str]) -> dict[str, TopicDescription]:
        """Return topics by name as one broker (None: any) knows them now; those that it does not know are left out."""
        m = messages.metadata_request
        request = m.MetadataRequest(
            topics=[m.MetadataRequestTopic(name=name) for name in topics], allow_auto_topic_creation=False
        )
        asked = "a broker" if broker is None else f"broker {broker}"
        view = ClusterView().with_metadata(await self._ask(broker, request, f"asking {asked} for topics"))
        return {name: describe_topic_view(topic) for name, topic in view.topics.items()}

    # cluster

    async def describe_cluster(self) -> ClusterDescription:
        """Return brokers, controller and cluster id, as one broker sees them now."""
        request = messages.describe_cluster_request.DescribeClusterRequest()
        try:
            response = await self._retrying(lambda: self._cluster.request_any(request), "describing the cluster")
        except ClientError as problem:
            if problem.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            view = await self._cluster.fetch_all_topics()  # brokers before 2.8 tell it with the metadata
            return ClusterDescription(view.cluster_id, view.controller_id, tuple(view.brokers.values()))
        raise_error(response, "describing the cluster")
        brokers = tuple(BrokerNode(each.broker_id, each.host, each.port, each.rack) for each in response.brokers)
        return ClusterDescription(
            response.cluster_id, response.controller_id, tuple(sorted(brokers, key=lambda broker: broker.id))
        )


def _creatable(topic: NewTopic) -> Any:
    m = messages.create_topics_request
    assigned = topic.replica_assignments
    return m.CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assigned else topic.num_partitions,
        replication_factor=-1 if assigned else topic.replication_factor,
        assignments=[
            m.CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
            for partition, brokers in (assigned or {}).items()
        ],
        configs=[m.CreatableTopicConfig(name=key, value=value) for key, value in (topic.topic_configs or {}).items()],
    )


def _created_topic(answer: messages.create_topics_response.CreatableTopicResult) -> CreatedTopic:
    topic_id = topic_id_to_text(answer.topic_id) if any(answer.topic_id) else ""
    return CreatedTopic(answer.name, topic_id, answer.num_partitions, answer.replication_factor)


def describe_topic_view(topic: TopicView) -> TopicDescription:
    """Return the description of a topic of a view."""
    return TopicDescription(
        topic.name,
        topic_id_to_text(topic.topic_id) if any(topic.topic_id) else "",
        topic.is_internal,
        tuple(topic.partitions[number] for number in topic.all_partitions),
    )
