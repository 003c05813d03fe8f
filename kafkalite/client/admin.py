"""Administration: topics, records, offsets, settings, the cluster; partitions in `partition_admin`, groups in `group_admin`.

Every call is typed; answers are frozen, with `.to_dict()`. Calls that only a controller serves are sent to it, and again to the next
one when it has moved. A call over several items raises the error of the first that failed after all were tried; `error.failures` of an
`AdminError` has them all.
"""

from __future__ import annotations

import dataclasses
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from kafkalite.client.cluster_client import ClusterClient, Opener
from kafkalite.client.cluster_view import BrokerNode, PartitionView, TopicView
from kafkalite.client.errors import AdminError as AdminError
from kafkalite.client.errors import ClientError, error_of
from kafkalite.client.group_admin import GroupAdmin
from kafkalite.client.group_admin import GroupDescription as GroupDescription
from kafkalite.client.group_admin import GroupListing as GroupListing
from kafkalite.client.group_admin import GroupMember as GroupMember
from kafkalite.client.offset_lookup import EARLIEST, LATEST, MAX_TIMESTAMP, list_offsets
from kafkalite.client.options import options_from_config
from kafkalite.client.partition_admin import NewPartitions as NewPartitions
from kafkalite.client.partition_admin import PartitionAdmin
from kafkalite.client.partition_admin import PartitionReassignment as PartitionReassignment
from kafkalite.client.records import OffsetAndTimestamp
from kafkalite.client.retry import RetryPolicy
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition, topic_id_to_text

_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_RESOURCE_TYPES = {"topic": _TOPIC_RESOURCE, "broker": _BROKER_RESOURCE}
_CONFIG_SOURCES = {
    0: "UNKNOWN",
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
}
_OFFSETS_BY_NAME = {"earliest": EARLIEST, "latest": LATEST, "max-timestamp": MAX_TIMESTAMP}


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created. -1 stands for the brokers' defaults; `replica_assignments` gives the replicas of each partition."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[int]] | None = None
    topic_configs: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """What a broker tells of a topic that it created; the id is empty and numbers are -1 where it is too old to tell."""

    name: str
    topic_id: str
    num_partitions: int
    replication_factor: int

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions in order; `topic_id` is 22 characters of base64."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionView, ...]

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas) if self.partitions else 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "topic_id": self.topic_id,
            "is_internal": self.is_internal,
            "partitions": [each.to_dict() for each in self.partitions],
        }


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster as its brokers tell; `controller_id` is -1 while there is none."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerNode, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "cluster_id": self.cluster_id,
            "controller_id": self.controller_id,
            "brokers": [each.to_dict() for each in self.brokers],
        }


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting; `value` is None when it is sensitive. `source` is Kafka's name of where it comes from."""

    name: str
    value: str | None
    source: str
    read_only: bool
    is_sensitive: bool
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source == "DEFAULT_CONFIG"

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class DeletedRecords:
    """The first offset that a partition still has after `delete_records`."""

    topic_partition: TopicPartition
    low_watermark: int

    def to_dict(self) -> dict[str, Any]:
        return {**self.topic_partition._asdict(), "low_watermark": self.low_watermark}


class Admin(PartitionAdmin, GroupAdmin):
    """Administrative calls. Use it as `async with Admin(bootstrap_servers=…) as admin`, or `connect` and `close` it.

    `request_timeout_ms` bounds one request, `default_api_timeout_ms` a whole call with its retries.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        client_id: str | None = "kafkalite-admin",
        request_timeout_ms: int = 30_000,
        default_api_timeout_ms: int = 60_000,
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 1000,
        metadata_max_age_ms: int = 300_000,
        security_protocol: str = "PLAINTEXT",
        ssl_context: ssl.SSLContext | None = None,
        opener: Opener | None = None,
    ) -> None:
        self._api_timeout_s = default_api_timeout_ms / 1000
        self._request_timeout_ms = request_timeout_ms
        self._cluster = ClusterClient(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            retry=RetryPolicy(retry_backoff_ms, retry_backoff_max_ms),
            security_protocol=security_protocol,
            ssl_context=ssl_context,
            opener=opener,
        )

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **options: Any) -> Self:
        """An admin client from Java's dotted names, `{"bootstrap.servers": …}`; `options` are keyword arguments."""
        return cls(**{**options_from_config(cls, config), **options})

    async def connect(self, timeout: float = 10.0) -> None:
        """Reach the cluster within `timeout` seconds. NoBrokersAvailableError names, per bootstrap server, what went wrong."""
        await self._cluster.connect(timeout)

    async def close(self) -> None:
        await self._cluster.close()

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _retrying(self, attempt: Callable[[], Awaitable[Any]], what: str) -> Any:
        return await self._cluster.retrying(attempt, what, self._api_timeout_s)

    async def _ask_controller(self, request: Any) -> Any:
        if self._cluster.view.controller_id < 0:
            await self._cluster.refresh()
        controller = self._cluster.view.controller_id
        if controller < 0:
            raise ClientError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller now")
        return await self._cluster.request(controller, request)

    # topics

    async def create_topics(
        self, new_topics: Iterable[NewTopic], *, timeout_ms: int | None = None, validate_only: bool = False
    ) -> list[CreatedTopic]:
        """Create topics; with `validate_only` only check that it could be done.

        AdminError with TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_CONFIG, … for those that failed.
        """
        m = messages.create_topics_request
        wanted = {topic.name: topic for topic in new_topics}
        created: dict[str, CreatedTopic] = {}
        failures: dict[str, ClientError] = {}

        async def attempt() -> None:
            left = [topic for name, topic in wanted.items() if name not in created and name not in failures]
            request = m.CreateTopicsRequest(
                topics=[_creatable(topic) for topic in left],
                timeout_ms=self._request_timeout_ms if timeout_ms is None else timeout_ms,
                validate_only=validate_only,
            )
            response = await self._ask_controller(request)
            for answer in response.topics:
                if not answer.error_code:
                    created[answer.name] = CreatedTopic(
                        answer.name,
                        topic_id_to_text(answer.topic_id) if any(answer.topic_id) else "",
                        answer.num_partitions,
                        answer.replication_factor,
                    )
                    continue
                error = error_of(answer.error_code, f"creating topic {answer.name}", answer.error_message)
                if answer.error_code == ErrorCode.NOT_CONTROLLER:
                    raise error
                failures[answer.name] = error

        await self._retrying(attempt, "creating topics")
        if failures:
            raise AdminError(failures)
        return [created[name] for name in wanted]

    async def delete_topics(self, topics: Iterable[str], *, timeout_ms: int | None = None) -> None:
        """Delete topics by name. AdminError with UNKNOWN_TOPIC_OR_PARTITION, TOPIC_DELETION_DISABLED, … for those that failed."""
        m = messages.delete_topics_request
        wanted = list(dict.fromkeys(topics))
        done: set[str] = set()
        failures: dict[str, ClientError] = {}

        async def attempt() -> None:
            left = [name for name in wanted if name not in done and name not in failures]
            request = m.DeleteTopicsRequest(
                topics=[m.DeleteTopicState(name=name) for name in left],
                timeout_ms=self._request_timeout_ms if timeout_ms is None else timeout_ms,
            )
            response = await self._ask_controller(request)
            for answer in response.responses:
                error = error_of(answer.error_code, f"deleting topic {answer.name}", answer.error_message)
                if answer.error_code == ErrorCode.NOT_CONTROLLER:
                    raise error
                if answer.error_code:
                    failures[answer.name] = error
                else:
                    done.add(answer.name)

        await self._retrying(attempt, "deleting topics")
        if failures:
            raise AdminError(failures)

    async def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """Names of the topics that this client may see, sorted."""
        view = await self._cluster.fetch_all_topics()
        return sorted(name for name, topic in view.topics.items() if include_internal or not topic.is_internal)

    async def describe_topics(self, topics: Iterable[str] | None = None) -> list[TopicDescription]:
        """Topics with partitions, leaders and replicas; all of them by default. UNKNOWN_TOPIC_OR_PARTITION."""
        if topics is None:
            view = await self._cluster.fetch_all_topics()
            return [_description(view.topics[name]) for name in sorted(view.topics)]
        names = list(dict.fromkeys(topics))
        view = await self._cluster.fetch_topics(names)
        return [_description(view.topics[name]) for name in names]

    # records and offsets

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> list[DeletedRecords]:
        """Delete all records before an offset of each partition; -1 stands for the high watermark.

        AdminError with OFFSET_OUT_OF_RANGE, POLICY_VIOLATION, UNKNOWN_TOPIC_OR_PARTITION, … for those that failed.
        """
        wanted = {TopicPartition(*each): offset for each, offset in offsets.items()}
        done: dict[TopicPartition, DeletedRecords] = {}
        failures: dict[str, ClientError] = {}
        await self._cluster.fetch_topics(sorted({each.topic for each in wanted}))
        self._cluster.watch_topics({each.topic for each in wanted})
        await self._cluster.refresh()

        async def attempt() -> None:
            left = {each: offset for each, offset in wanted.items() if each not in done and str(each) not in failures}
            for leader, asked in self._by_leader(left).items():
                await self._delete_on(leader, asked, done, failures)

        await self._retrying(attempt, "deleting records")
        if failures:
            raise AdminError(failures)
        return [done[each] for each in wanted]

    def _by_leader(self, wanted: Mapping[TopicPartition, int]) -> dict[int, dict[TopicPartition, int]]:
        grouped: dict[int, dict[TopicPartition, int]] = {}
        for each, value in wanted.items():
            known = self._cluster.view.partition(each)
            if known is None:
                raise error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(each))
            if known.leader < 0:
                raise error_of(ErrorCode.LEADER_NOT_AVAILABLE, str(each))
            grouped.setdefault(known.leader, {})[each] = value
        return grouped

    async def _delete_on(
        self,
        leader: int,
        asked: Mapping[TopicPartition, int],
        done: dict[TopicPartition, DeletedRecords],
        failures: dict[str, ClientError],
    ) -> None:
        m = messages.delete_records_request
        topics: dict[str, list[Any]] = {}
        for each, offset in asked.items():
            topics.setdefault(each.topic, []).append(
                m.DeleteRecordsPartition(partition_index=each.partition, offset=offset)
            )
        request = m.DeleteRecordsRequest(
            topics=[m.DeleteRecordsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
            timeout_ms=self._request_timeout_ms,
        )
        response = await self._cluster.request(leader, request)
        again: ClientError | None = None
        for topic in response.topics:
            for answer in topic.partitions:
                each = TopicPartition(topic.name, answer.partition_index)
                if not answer.error_code:
                    done[each] = DeletedRecords(each, answer.low_watermark)
                    continue
                error = error_of(answer.error_code, f"deleting records of {each}")
                if error.retriable:
                    again = error
                else:
                    failures[str(each)] = error
        if again is not None:
            raise again

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int | str], *, isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the offset of "earliest", "latest", "max-timestamp", or the first at or after a time (ms).

        None where no record is that young. UNKNOWN_TOPIC_OR_PARTITION when there is no such topic.
        """
        levels = {"read_uncommitted": 0, "read_committed": 1}
        if isolation_level not in levels:
            raise ValueError(f"isolation_level is {isolation_level!r}; it may be {', '.join(levels)}")
        timestamps: dict[TopicPartition, int] = {}
        for each, value in wanted.items():
            if isinstance(value, str) and value not in _OFFSETS_BY_NAME:
                raise ValueError(f"no offset {value!r}; there are {', '.join(_OFFSETS_BY_NAME)} and times in ms")
            timestamps[TopicPartition(*each)] = _OFFSETS_BY_NAME[value] if isinstance(value, str) else value
        await self._cluster.fetch_topics(sorted({each.topic for each in timestamps}))
        return await list_offsets(self._cluster, timestamps, levels[isolation_level], self._api_timeout_s)

    # cluster and settings

    async def describe_cluster(self) -> ClusterDescription:
        """Brokers, controller and cluster id, as one broker sees them now."""
        request = messages.describe_cluster_request.DescribeClusterRequest()
        try:
            response = await self._retrying(lambda: self._cluster.request_any(request), "describing the cluster")
        except ClientError as problem:
            if problem.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            view = await self._cluster.fetch_all_topics()  # brokers before 2.8 tell it with the metadata
            return ClusterDescription(view.cluster_id, view.controller_id, tuple(view.brokers.values()))
        if response.error_code:
            raise error_of(response.error_code, "describing the cluster", response.error_message)
        brokers = tuple(BrokerNode(each.broker_id, each.host, each.port, each.rack) for each in response.brokers)
        return ClusterDescription(
            response.cluster_id, response.controller_id, tuple(sorted(brokers, key=lambda broker: broker.id))
        )

    async def describe_configs(
        self, resource_type: str, name: str, *, keys: Sequence[str] | None = None, documentation: bool = False
    ) -> dict[str, ConfigEntry]:
        """The settings of a "topic" by name or of a "broker" by id, all or only `keys`."""
        if resource_type not in _RESOURCE_TYPES:
            raise ValueError(f"no resource type {resource_type!r}; there are {', '.join(_RESOURCE_TYPES)}")
        m = messages.describe_configs_request
        resource = m.DescribeConfigsResource(
            resource_type=_RESOURCE_TYPES[resource_type],
            resource_name=str(name),
            configuration_keys=None if keys is None else list(keys),
        )
        request = m.DescribeConfigsRequest(resources=[resource], include_documentation=documentation)

        async def attempt() -> Any:
            if resource_type == "broker":
                response = await self._cluster.request(int(name), request)
            else:
                response = await self._cluster.request_any(request)
            (result,) = response.results
            if result.error_code:
                raise error_of(result.error_code, f"settings of {resource_type} {name}", result.error_message)
            return result

        result = await self._retrying(attempt, "describing settings")
        return {
            each.name: ConfigEntry(
                each.name,
                each.value,
                _CONFIG_SOURCES.get(each.config_source, "UNKNOWN"),
                bool(each.read_only),
                bool(each.is_sensitive),
                each.documentation,
            )
            for each in result.configs
        }


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


def _description(topic: TopicView) -> TopicDescription:
    return TopicDescription(
        topic.name,
        topic_id_to_text(topic.topic_id) if any(topic.topic_id) else "",
        topic.is_internal,
        tuple(topic.partitions[number] for number in topic.all_partitions),
    )
