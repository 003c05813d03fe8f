"""One module for each API, or for a few that belong together; `SERVED` collects what dispatch and ApiVersions are derived from.

A module states in `Parts` what its handlers use of the broker, and has a record for each API in `APIS`: versions, handler, the shape of a
failure, and the permission on the cluster or the guard. A handler resolves what is named (partitions, groups, topics), decides, and shapes
the response. One whose work grows with the request is a generator that yields after each unit (`served_api.run_in_portions`).

DescribeTopicPartitions (75) is left out on purpose: Apache Kafka serves it only without ZooKeeper, and its tools print what they print
for a ZooKeeper cluster only when it is absent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.broker.handlers import (
    acls,
    alter_configs,
    api_versions,
    client_quotas,
    cluster,
    consumer_groups,
    control,
    copy_records,
    delegation_tokens,
    delete_records,
    describe_configs,
    describe_producers,
    digest_records,
    elections,
    envelope,
    fetch,
    find_coordinator,
    group_admin,
    group_membership,
    group_offsets,
    list_offsets,
    log_dirs,
    metadata,
    metadata_digests,
    offset_for_leader_epoch,
    peer_heartbeat,
    produce,
    producer_ids,
    sasl,
    topics,
    transaction_admin,
    transactions,
    txn_offset_commit,
    update_features,
    user_scram_credentials,
    write_txn_markers,
)

if TYPE_CHECKING:
    from kafkalite.broker.requests.served_api import ServedApi
    from kafkalite.broker.wiring import BrokerParts

SERVED: Final[tuple[ServedApi[BrokerParts], ...]] = (
    *produce.APIS,
    *fetch.APIS,
    *list_offsets.APIS,
    *metadata.APIS,
    *control.APIS,
    *group_offsets.APIS,
    *find_coordinator.APIS,
    *group_membership.APIS,
    *group_admin.APIS,
    *api_versions.APIS,
    *topics.APIS,
    *delete_records.APIS,
    *producer_ids.APIS,
    *offset_for_leader_epoch.APIS,
    *acls.APIS,
    *describe_configs.APIS,
    *alter_configs.APIS,
    *log_dirs.APIS,
    *delegation_tokens.APIS,
    *elections.APIS,
    *client_quotas.APIS,
    *user_scram_credentials.APIS,
    *update_features.APIS,
    *describe_producers.APIS,
    *cluster.APIS,
    *transactions.APIS,
    *transaction_admin.APIS,
    *write_txn_markers.APIS,
    *txn_offset_commit.APIS,
    *sasl.APIS,
    *consumer_groups.APIS,
    *envelope.APIS,
    *peer_heartbeat.APIS,
    *metadata_digests.APIS,
    *copy_records.APIS,
    *digest_records.APIS,
)
"""That its type holds is what proves that the broker's parts are what each handler needs."""
