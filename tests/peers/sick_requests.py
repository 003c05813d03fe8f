"""Requests to a cluster with a dead broker, in any version: the rows of `test_sick_clusters`. `sick_cluster` has the topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.messages import Message
from kafkalite.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.peers.sick_cluster import (
    ASKED,
    CONTROLLER,
    DEAD,
    DELETED,
    LONG_TIMEOUT_MS,
    OTHER,
    TIMEOUT_MS,
    UNKNOWN,
    Known,
    partitions_of,
    records,
)
from tests.peers.sick_coordinator_requests import COORDINATORS_ROWS, Named, Rows


def _metadata(known: Known) -> Iterator[Named]:
    m = messages.metadata_request

    def asked(*topics: str) -> Message:
        named = [m.MetadataRequestTopic(name=each) for each in topics]
        return m.MetadataRequest(topics=named, allow_auto_topic_creation=False)

    is_made = known.creates_topics and known.version < 4
    topics = [topic for topic in ASKED if topic != UNKNOWN or not is_made]
    for topic in (*topics, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "no good name"):
        yield topic, asked(topic)
    yield "several topics", asked(*topics)
    if known.creates_topics:
        yield "to be made", m.MetadataRequest(topics=[m.MetadataRequestTopic(name=DELETED)])
    yield "all topics", m.MetadataRequest(topics=None if known.version else [])
    if known.version:
        yield "no topics", m.MetadataRequest(topics=[])
    if known.version >= 12:
        for topic in ASKED:
            yield f"id of {topic}", m.MetadataRequest(topics=[m.MetadataRequestTopic(topic_id=known.topic_id(topic))])


def _produce(_: Known) -> Iterator[Named]:
    m = messages.produce_request

    def sent(acks: int, *topics: str) -> Message:
        data = [
            m.TopicProduceData(
                name=topic,
                partition_data=[m.PartitionProduceData(index=p, records=records()) for p in partitions_of(topic)],
            )
            for topic in topics
        ]
        return m.ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=data)

    for acks in (1, -1):
        for topic in ASKED:
            yield f"acks {acks} to {topic}", sent(acks, topic)
    yield "acks -1 to all", sent(-1, *ASKED)


def _fetch(known: Known) -> Iterator[Named]:
    m = messages.fetch_request

    def fetched(topic: str, offset: int = 0, epoch: int = -1) -> Any:
        partitions = [
            m.FetchPartition(partition=p, fetch_offset=offset, partition_max_bytes=1, current_leader_epoch=epoch)
            for p in partitions_of(topic)
        ]
        return m.FetchTopic(topic=topic, topic_id=known.topic_id(topic), partitions=partitions)

    def asked(*topics: Any) -> Message:
        return m.FetchRequest(
            replica_id=-1, replica_state=m.ReplicaState(), max_bytes=1 << 20, session_epoch=-1, topics=list(topics)
        )

    for topic in ASKED:
        yield f"{topic} from 1000", asked(fetched(topic, 1000))
        if known.version >= 9:
            yield f"{topic} of epoch 77", asked(fetched(topic, 0, 77))
            yield f"{topic} of epoch 0", asked(fetched(topic, 1000, 0))
    yield "several topics", asked(*(fetched(topic, 1000) for topic in ASKED))


def _list_offsets(_: Known) -> Iterator[Named]:
    m = messages.list_offsets_request

    def asked(timestamp: int, *topics: str, epoch: int = -1, replica: int = -1) -> Message:
        made = [
            m.ListOffsetsTopic(
                name=topic,
                partitions=[
                    m.ListOffsetsPartition(partition_index=p, timestamp=timestamp, current_leader_epoch=epoch)
                    for p in partitions_of(topic)
                ],
            )
            for topic in topics
        ]
        return m.ListOffsetsRequest(replica_id=replica, topics=made)

    for timestamp in (-1, -2, -3, -4, 0):
        yield f"time {timestamp}", asked(timestamp, *ASKED)
    for epoch in (0, 77):
        yield f"the end of epoch {epoch}", asked(-1, *ASKED, epoch=epoch)
    for replica in (-2, DEAD):
        yield f"the end for replica {replica}", asked(-1, *ASKED, replica=replica)


def _epochs(_: Known) -> Iterator[Named]:
    m = messages.offset_for_leader_epoch_request
    for current, wanted, replica in ((-1, 0, -1), (0, 0, -1), (77, 0, -1), (-1, 77, -2), (-1, 0, DEAD)):
        topics = [
            m.OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    m.OffsetForLeaderPartition(partition=p, current_leader_epoch=current, leader_epoch=wanted)
                    for p in partitions_of(topic)
                ],
            )
            for topic in ASKED
        ]
        yield f"{(current, wanted, replica)}", m.OffsetForLeaderEpochRequest(replica_id=replica, topics=topics)


def _create_topics(known: Known) -> Iterator[Named]:
    m = messages.create_topics_request

    def made(
        name: str, *replicas: int, partitions: int = -1, factor: int = -1, timeout_ms: int = TIMEOUT_MS
    ) -> Message:
        assigned = [m.CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))] if replicas else []
        topic = m.CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, assignments=assigned)
        return m.CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)

    yield "a topic that is being deleted", made(DELETED, CONTROLLER)
    yield "a topic without leader", made("leaderless", CONTROLLER)
    yield "more replicas than brokers", made("large", partitions=1, factor=3)
    name = f"made-{known.version}"
    yield "on a dead broker", made(name, DEAD)
    yield "on a dead broker again", made(name, DEAD)
    # This one succeeds, on a busy machine later than others may wait for what cannot.
    yield "on a live and a dead broker", made(f"half-{known.version}", CONTROLLER, DEAD, timeout_ms=LONG_TIMEOUT_MS)


def _delete_topics(known: Known) -> Iterator[Named]:
    m = messages.delete_topics_request

    def delete(timeout_ms: int = TIMEOUT_MS, **topic: Any) -> Message:
        return m.DeleteTopicsRequest(topics=[m.DeleteTopicState(**topic)], timeout_ms=timeout_ms)

    for name in (UNKNOWN, DELETED):
        yield name, delete(name=name)
    deleted = f"deleted-{known.version}"
    for _ in range(2):  # the first one succeeds, which may take a busy machine some time
        yield deleted, delete(LONG_TIMEOUT_MS, name=deleted)
    if known.version >= 6:
        for name in (UNKNOWN, DELETED):
            yield f"id of {name}", delete(name=None, topic_id=known.topic_id(name))


def _create_partitions(_: Known) -> Iterator[Named]:
    m = messages.create_partitions_request

    def asked(name: str, *replicas: int, total: int = 9, validate: bool = True) -> Message:
        assigned = [m.CreatePartitionsAssignment(broker_ids=list(replicas))] if replicas else None
        topic = m.CreatePartitionsTopic(name=name, count=total, assignments=assigned)
        return m.CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=validate)

    for topic in ASKED:
        yield topic, asked(topic)
    yield "on a dead broker", asked("moved", DEAD, total=2)
    yield "on a dead broker and a live one", asked("moved", DEAD, CONTROLLER, total=2)
    yield "a topic that is being deleted, done", asked(DELETED, validate=False)


def _delete_records(_: Known) -> Iterator[Named]:
    m = messages.delete_records_request
    topics = [
        m.DeleteRecordsTopic(
            name=topic,
            partitions=[m.DeleteRecordsPartition(partition_index=p, offset=0) for p in partitions_of(topic)],
        )
        for topic in ASKED
    ]
    yield "all topics", m.DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS)


def _write_markers(_: Known) -> Iterator[Named]:
    m = messages.write_txn_markers_request
    topics = [
        m.WritableTxnMarkerTopic(name=topic, partition_indexes=list(partitions_of(topic)))
        for topic in ("leaderless", DELETED, UNKNOWN)
    ]
    marker = m.WritableTxnMarker(producer_id=77, producer_epoch=0, topics=topics)
    yield "an abort", m.WriteTxnMarkersRequest(markers=[marker])


def _resources() -> list[tuple[str, int, str]]:
    topics = [(topic, 2, topic) for topic in ASKED]
    brokers = [(f"broker {broker_id}", 4, str(broker_id)) for broker_id in (DEAD, 9)]
    return [*topics, *brokers, ("an odd type", 77, "x")]


def _describe_configs(_: Known) -> Iterator[Named]:
    m = messages.describe_configs_request
    for name, kind, resource in _resources():
        keys = ["min.insync.replicas"] if kind == 2 else ["log.retention.hours"]
        made = m.DescribeConfigsResource(resource_type=kind, resource_name=resource, configuration_keys=keys)
        yield name, m.DescribeConfigsRequest(resources=[made])


def _alter_configs(_: Known) -> Iterator[Named]:
    m = messages.alter_configs_request
    for name, kind, resource in _resources():
        for validate in (True, False) if resource in (DELETED, UNKNOWN) else (True,):
            value = m.AlterableConfig(name="retention.ms", value="7700000")
            made = m.AlterConfigsResource(resource_type=kind, resource_name=resource, configs=[value])
            yield f"{name}, {validate}", m.AlterConfigsRequest(resources=[made], validate_only=validate)


def _incremental_alter_configs(_: Known) -> Iterator[Named]:
    m = messages.incremental_alter_configs_request
    for name, kind, resource in _resources():
        for validate in (True, False) if resource in (DELETED, UNKNOWN) else (True,):
            value = m.AlterableConfig(name="retention.ms", value="7700000")
            made = m.AlterConfigsResource(resource_type=kind, resource_name=resource, configs=[value])
            yield f"{name}, {validate}", m.IncrementalAlterConfigsRequest(resources=[made], validate_only=validate)


def _describe_log_dirs(_: Known) -> Iterator[Named]:
    m = messages.describe_log_dirs_request
    for topic in ASKED:
        asked = m.DescribableLogDirTopic(topic=topic, partitions=list(partitions_of(topic)))
        yield topic, m.DescribeLogDirsRequest(topics=[asked])


def _alter_replica_log_dirs(_: Known) -> Iterator[Named]:
    m = messages.alter_replica_log_dirs_request
    topics = [
        m.AlterReplicaLogDirTopic(name=topic, partitions=list(partitions_of(topic)))
        for topic in ("leaderless", DELETED, UNKNOWN)
    ]
    yield "no such folder", m.AlterReplicaLogDirsRequest(dirs=[m.AlterReplicaLogDir(path="/no/such", topics=topics)])


def _elect_leaders(known: Known) -> Iterator[Named]:
    m = messages.elect_leaders_request
    for kind in (0, 1) if known.version else (0,):
        for topic in ASKED:
            asked = m.TopicPartitions(topic=topic, partitions=list(partitions_of(topic)))
            request = m.ElectLeadersRequest(election_type=kind, topic_partitions=[asked], timeout_ms=TIMEOUT_MS)
            yield f"type {kind} of {topic}", request
    yield "all", m.ElectLeadersRequest(topic_partitions=None, timeout_ms=TIMEOUT_MS)


def _alter_reassignments(_: Known) -> Iterator[Named]:
    m = messages.alter_partition_reassignments_request

    def asked(topic: str, replicas: list[int] | None, *partitions: int) -> Message:
        indexes = partitions or partitions_of(topic)
        made = [m.ReassignablePartition(partition_index=p, replicas=replicas) for p in indexes]
        return m.AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, topics=[m.ReassignableTopic(name=topic, partitions=made)]
        )

    for topic in ASKED:
        yield f"none of {topic}", asked(topic, None)
        yield f"{topic} to a dead broker", asked(topic, [DEAD])
    for topic in (DELETED, UNKNOWN):
        yield f"{topic} to a live broker", asked(topic, [OTHER])
    yield "a partition without leader to a live broker", asked("leaderless", [OTHER], 0, 2)


def _list_reassignments(_: Known) -> Iterator[Named]:
    m = messages.list_partition_reassignments_request
    yield "all", m.ListPartitionReassignmentsRequest(topics=None)
    for topic in ASKED:
        asked = m.ListPartitionReassignmentsTopics(name=topic, partition_indexes=list(partitions_of(topic)))
        yield topic, m.ListPartitionReassignmentsRequest(topics=[asked])


def _describe_cluster(known: Known) -> Iterator[Named]:
    m = messages.describe_cluster_request.DescribeClusterRequest
    yield "brokers", m()
    if known.version:
        yield "controllers", m(endpoint_type=2)


def _describe_producers(_: Known) -> Iterator[Named]:
    m = messages.describe_producers_request
    topics = [m.TopicRequest(name=topic, partition_indexes=list(partitions_of(topic))) for topic in ASKED]
    yield "all topics", m.DescribeProducersRequest(topics=topics)


def _stale_leader_and_isr(_: Known) -> Iterator[Named]:
    yield "nothing", messages.leader_and_isr_request.LeaderAndIsrRequest(controller_id=DEAD, controller_epoch=0)


def _stale_stop_replica(_: Known) -> Iterator[Named]:
    yield "nothing", messages.stop_replica_request.StopReplicaRequest(controller_id=DEAD, controller_epoch=0)


def _stale_update_metadata(_: Known) -> Iterator[Named]:
    yield "nothing", messages.update_metadata_request.UpdateMetadataRequest(controller_id=DEAD, controller_epoch=0)


def _controlled_shutdown(_: Known) -> Iterator[Named]:
    m = messages.controlled_shutdown_request.ControlledShutdownRequest
    yield "of a dead broker", m(broker_id=DEAD, broker_epoch=-1)


def _alter_partition(known: Known) -> Iterator[Named]:
    m = messages.alter_partition_request
    member = m.BrokerState(broker_id=DEAD)
    data = m.PartitionData(partition_index=0, leader_epoch=0, new_isr_with_epochs=[member], partition_epoch=0)
    topic = m.TopicData(topic_name="moved", topic_id=known.topic_id("moved"), partitions=[data])
    yield "of a dead broker", m.AlterPartitionRequest(broker_id=DEAD, broker_epoch=7, topics=[topic])


def _allocate_producer_ids(_: Known) -> Iterator[Named]:
    m = messages.allocate_producer_ids_request.AllocateProducerIdsRequest
    yield "of a dead broker", m(broker_id=DEAD, broker_epoch=7)


ROWS: Final[Mapping[ApiKey, Rows]] = {
    ApiKey.METADATA: _metadata,
    ApiKey.DESCRIBE_CLUSTER: _describe_cluster,
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _epochs,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
    ApiKey.WRITE_TXN_MARKERS: _write_markers,
    **COORDINATORS_ROWS,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_reassignments,
    ApiKey.LEADER_AND_ISR: _stale_leader_and_isr,
    ApiKey.STOP_REPLICA: _stale_stop_replica,
    ApiKey.UPDATE_METADATA: _stale_update_metadata,
    ApiKey.CONTROLLED_SHUTDOWN: _controlled_shutdown,
    ApiKey.ALTER_PARTITION: _alter_partition,
    ApiKey.ALLOCATE_PRODUCER_IDS: _allocate_producer_ids,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_reassignments,
}
"""In the order in which they are asked: what changes the cluster is last."""

NOT_ASKED: Final[Mapping[ApiKey, str]] = {
    **dict.fromkeys(
        (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.ENVELOPE),
        "they say nothing of brokers, topics and groups",
    ),
    **dict.fromkeys(
        (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS),
        "names are all that ACLs have; there is no authorizer",
    ),
    **dict.fromkeys(
        (
            ApiKey.CREATE_DELEGATION_TOKEN,
            ApiKey.RENEW_DELEGATION_TOKEN,
            ApiKey.EXPIRE_DELEGATION_TOKEN,
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            ApiKey.ALTER_CLIENT_QUOTAS,
            ApiKey.UPDATE_FEATURES,
        ),
        "what they tell and change lies in ZooKeeper, whichever broker is dead",
    ),
    **dict.fromkeys(
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE),
        "refused in any cluster with ZooKeeper, whatever they name",
    ),
}
"""Why a row would show nothing that `test_admin_answers` does not."""
