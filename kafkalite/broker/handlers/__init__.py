"""One module for each API, or for a few that belong together; `HANDLERS` is the table that dispatch and ApiVersions are derived from.

DescribeTopicPartitions (75) is left out on purpose: Apache Kafka serves it only without ZooKeeper, and its tools print what they print
for a ZooKeeper cluster only when it is absent.
"""

from __future__ import annotations

from kafkalite.broker.dispatch import Handler
from kafkalite.broker.handlers import (
    alter_configs,
    api_versions,
    client_quotas,
    cluster,
    control,
    delete_records,
    describe_configs,
    describe_producers,
    elections,
    fetch,
    find_coordinator,
    group_admin,
    group_membership,
    group_offsets,
    list_offsets,
    log_dirs,
    metadata,
    offset_for_leader_epoch,
    produce,
    producer_ids,
    topics,
)
from kafkalite.protocol.apis import ApiKey

HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.PRODUCE: produce.produce,
    ApiKey.FETCH: fetch.fetch,
    ApiKey.LIST_OFFSETS: list_offsets.list_offsets,
    ApiKey.METADATA: metadata.metadata,
    ApiKey.LEADER_AND_ISR: control.leader_and_isr,
    ApiKey.STOP_REPLICA: control.stop_replica,
    ApiKey.UPDATE_METADATA: control.update_metadata,
    ApiKey.CONTROLLED_SHUTDOWN: control.controlled_shutdown,
    ApiKey.OFFSET_COMMIT: group_offsets.offset_commit,
    ApiKey.OFFSET_FETCH: group_offsets.offset_fetch,
    ApiKey.FIND_COORDINATOR: find_coordinator.find_coordinator,
    ApiKey.JOIN_GROUP: group_membership.join_group,
    ApiKey.HEARTBEAT: group_membership.heartbeat,
    ApiKey.LEAVE_GROUP: group_membership.leave_group,
    ApiKey.SYNC_GROUP: group_membership.sync_group,
    ApiKey.DESCRIBE_GROUPS: group_admin.describe_groups,
    ApiKey.LIST_GROUPS: group_admin.list_groups,
    ApiKey.API_VERSIONS: api_versions.api_versions,
    ApiKey.CREATE_TOPICS: topics.create_topics,
    ApiKey.DELETE_TOPICS: topics.delete_topics,
    ApiKey.DELETE_RECORDS: delete_records.delete_records,
    ApiKey.INIT_PRODUCER_ID: producer_ids.init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.offset_for_leader_epoch,
    ApiKey.DESCRIBE_CONFIGS: describe_configs.describe_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: log_dirs.alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: log_dirs.describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.DELETE_GROUPS: group_admin.delete_groups,
    ApiKey.OFFSET_DELETE: group_offsets.offset_delete,
    ApiKey.ELECT_LEADERS: elections.elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: elections.alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: elections.list_partition_reassignments,
    ApiKey.ALTER_CONFIGS: alter_configs.alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: alter_configs.incremental_alter_configs,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: client_quotas.describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: client_quotas.alter_client_quotas,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers.describe_producers,
    ApiKey.ALTER_PARTITION: control.alter_partition,
    ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster,
    ApiKey.ALLOCATE_PRODUCER_IDS: producer_ids.allocate_producer_ids,
}
