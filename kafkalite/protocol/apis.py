"""The one table of Kafka's APIs that the codec knows: numbers, version ranges, where flexible encoding begins.

ApiVersions answers and request dispatch are derived from it. Highest versions are those of Apache Kafka 3.9. `shapes` names the versions
whose fields together make the one shape that handlers see: the newest, and an older one where the structure changed (topic
names became topic ids, one item became a list).

Private APIs are kafkalite's own, between its brokers or also for its clients. Apache Kafka and other clients neither send them nor are
told of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from kafkalite import NAME

FIRST_PRIVATE_KEY: Final = 20_000
"""First key of kafkalite's own APIs, far above the keys of Apache Kafka (below 100) and below the end of int16."""

FIRST_CLIENT_KEY: Final = 21_000
"""First key of those of them that clients of kafkalite send, on any listener; the ones before are for brokers."""

CLIENT_SOFTWARE_NAME: Final = NAME
"""Client software name in ApiVersions (KIP-511) of a client of ours, which is told of `FIRST_CLIENT_KEY` and those behind it."""

PEER_SOFTWARE_NAME: Final = f"{NAME}-broker"
"""Client software name in ApiVersions (KIP-511) of a broker that asks another broker for private APIs too."""


class ApiKey(IntEnum):
    """Request types with their wire numbers."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    DESCRIBE_TOPIC_PARTITIONS = 75
    PEER_HEARTBEAT = FIRST_PRIVATE_KEY
    METADATA_DIGESTS = FIRST_PRIVATE_KEY + 1
    COPY_RECORDS = FIRST_PRIVATE_KEY + 2
    DIGEST_RECORDS = FIRST_CLIENT_KEY


NEVER_FLEXIBLE = 1 << 15


@dataclass(frozen=True, slots=True)
class Api:
    """`name` is the stem of the message namespaces: `fetch` stands for `fetch_request` and `fetch_response`."""

    key: ApiKey
    min_version: int
    max_version: int
    flexible_from: int
    shapes: tuple[int, ...] = field(default=())
    kept_from: int = 0
    """The oldest version that Kafka 4.0 kept (KIP-896). Older ones are answered, and never asked of a broker."""

    @property
    def name(self) -> str:
        return self.key.name.lower()

    @property
    def is_private(self) -> bool:
        """True if the API is not Apache Kafka's but kafkalite's own."""
        return self.key >= FIRST_PRIVATE_KEY

    @property
    def is_for_brokers(self) -> bool:
        """True if the API is private, and served on the inter-broker listener only."""
        return FIRST_PRIVATE_KEY <= self.key < FIRST_CLIENT_KEY

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible_from


def _table(*apis: Api) -> dict[int, Api]:
    return {int(api.key): api for api in apis}


APIS: dict[int, Api] = _table(
    Api(ApiKey.PRODUCE, 0, 11, 9, kept_from=3),
    Api(ApiKey.FETCH, 0, 17, 12, (17, 14, 12), kept_from=4),
    Api(ApiKey.LIST_OFFSETS, 0, 9, 6, kept_from=1),
    Api(ApiKey.METADATA, 0, 12, 9, (12, 10)),
    Api(ApiKey.LEADER_AND_ISR, 0, 7, 4),
    Api(ApiKey.STOP_REPLICA, 0, 4, 2),
    Api(ApiKey.UPDATE_METADATA, 0, 8, 6),
    Api(ApiKey.CONTROLLED_SHUTDOWN, 0, 3, 3),
    Api(ApiKey.OFFSET_COMMIT, 0, 9, 8, (9, 4), kept_from=2),
    Api(ApiKey.OFFSET_FETCH, 0, 9, 6, (9, 7), kept_from=1),
    Api(ApiKey.FIND_COORDINATOR, 0, 6, 3, (6, 3)),
    Api(ApiKey.JOIN_GROUP, 0, 9, 6),
    Api(ApiKey.HEARTBEAT, 0, 4, 4),
    Api(ApiKey.LEAVE_GROUP, 0, 5, 4, (5, 2)),
    Api(ApiKey.SYNC_GROUP, 0, 5, 4),
    Api(ApiKey.DESCRIBE_GROUPS, 0, 5, 5),
    Api(ApiKey.LIST_GROUPS, 0, 5, 3),
    Api(ApiKey.SASL_HANDSHAKE, 0, 1, NEVER_FLEXIBLE),
    Api(ApiKey.API_VERSIONS, 0, 4, 3),
    Api(ApiKey.CREATE_TOPICS, 0, 7, 5, kept_from=2),
    Api(ApiKey.DELETE_TOPICS, 0, 6, 4, (6, 5), kept_from=1),
    Api(ApiKey.DELETE_RECORDS, 0, 2, 2),
    Api(ApiKey.INIT_PRODUCER_ID, 0, 5, 2),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 4, 4, kept_from=2),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, 3, (5, 3)),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, 3),
    Api(ApiKey.END_TXN, 0, 4, 3),
    Api(ApiKey.WRITE_TXN_MARKERS, 0, 1, 1, kept_from=1),
    Api(ApiKey.TXN_OFFSET_COMMIT, 0, 4, 3),
    Api(ApiKey.DESCRIBE_ACLS, 0, 3, 2, kept_from=1),
    Api(ApiKey.CREATE_ACLS, 0, 3, 2, kept_from=1),
    Api(ApiKey.DELETE_ACLS, 0, 3, 2, kept_from=1),
    Api(ApiKey.DESCRIBE_CONFIGS, 0, 4, 4, kept_from=1),
    Api(ApiKey.ALTER_CONFIGS, 0, 2, 2),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2, 2, kept_from=1),
    Api(ApiKey.DESCRIBE_LOG_DIRS, 0, 4, 2, kept_from=1),
    Api(ApiKey.SASL_AUTHENTICATE, 0, 2, 2),
    Api(ApiKey.CREATE_PARTITIONS, 0, 3, 2),
    Api(ApiKey.CREATE_DELEGATION_TOKEN, 0, 3, 2, kept_from=1),
    Api(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2, 2, kept_from=1),
    Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2, 2, kept_from=1),
    Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, 3, 2, kept_from=1),
    Api(ApiKey.DELETE_GROUPS, 0, 2, 2),
    Api(ApiKey.ELECT_LEADERS, 0, 2, 2),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, 1),
    Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 0, 0),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, 0),
    Api(ApiKey.OFFSET_DELETE, 0, 0, NEVER_FLEXIBLE),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, 1),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, 1),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, 0),
    Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, 0),
    Api(ApiKey.ALTER_PARTITION, 0, 3, 0, (3, 2, 1)),
    Api(ApiKey.UPDATE_FEATURES, 0, 1, 0, (1, 0)),
    Api(ApiKey.ENVELOPE, 0, 0, 0),
    Api(ApiKey.DESCRIBE_CLUSTER, 0, 1, 0),
    Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, 0),
    Api(ApiKey.BROKER_REGISTRATION, 0, 4, 0),
    Api(ApiKey.BROKER_HEARTBEAT, 0, 1, 0),
    Api(ApiKey.UNREGISTER_BROKER, 0, 0, 0),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, 0),
    Api(ApiKey.LIST_TRANSACTIONS, 0, 1, 0),
    Api(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, 0),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 0, 0),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 0, 0),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, 0),
    Api(ApiKey.PEER_HEARTBEAT, 0, 0, 0),
    Api(ApiKey.METADATA_DIGESTS, 0, 0, 0),
    Api(ApiKey.COPY_RECORDS, 0, 0, 0),
    Api(ApiKey.DIGEST_RECORDS, 0, 0, 0),
)

KAFKA_APIS: dict[int, Api] = {key: api for key, api in APIS.items() if not api.is_private}
"""The APIs that Apache Kafka has too."""


def request_header_version(api: Api, version: int) -> int:
    """Return 2 in flexible versions, else 1; ControlledShutdown 0 alone has header 0, without a client id."""
    if api.is_flexible(version):
        return 2
    return 0 if api.key is ApiKey.CONTROLLED_SHUTDOWN and version == 0 else 1


def response_header_version(api: Api, version: int) -> int:
    """Return 1 in flexible versions, else 0; ApiVersions always 0, so that a client of any age can read it (KIP-511)."""
    return 1 if api.is_flexible(version) and api.key is not ApiKey.API_VERSIONS else 0
