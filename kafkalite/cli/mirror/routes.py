"""What the mirror does with each API that clients of the target, who take it for one of its brokers, may ask it for. Pure.

What is not in the table is for controllers, or would act on the log directories of another broker than was meant: it ends the connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from struct import Struct
from struct import error as StructError
from typing import Final

from kafkalite.errors import ProtocolViolation
from kafkalite.net.frames import read_request_header
from kafkalite.protocol import messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.protocol.schemas.reader_source import read_uvarint
from kafkalite.types import Buffer

_SHORT: Final = Struct(">h")
_FLEXIBLE_PRODUCE: Final = 9


class Route(Enum):
    """What becomes of a request."""

    FOLLOWER = "answered from the source to a follower; a client is told that the mirror does not lead"
    EMPTY = "asked of every broker about itself, and answered by the mirror: it has nothing"
    PASSED_ON = "answered by a broker of the target, which also says which one is the right one"


_SAME_TO_US: Final[Mapping[ApiKey, int]] = {
    ApiKey.FETCH: 18,
    ApiKey.LIST_OFFSETS: 11,
    ApiKey.LIST_TRANSACTIONS: 2,
}
"""Newer versions than those of the codec, whose additions come last and change no answer: the follower's high watermark (KIP-1166), a
timeout and tiered storage's offsets (KIP-1005, KIP-1075), a pattern of transactional ids (KIP-1152)."""
_NEWER: Final = {
    "describe_quorum": 55,
    "get_telemetry_subscriptions": 71,
    "push_telemetry": 72,
    "list_config_resources": 74,
    "share_group_heartbeat": 76,
    "share_group_describe": 77,
    "share_fetch": 78,
    "share_acknowledge": 79,
    "add_raft_voter": 80,
    "remove_raft_voter": 81,
    "initialize_share_group_state": 83,
    "read_share_group_state": 84,
    "write_share_group_state": 85,
    "delete_share_group_state": 86,
    "read_share_group_state_summary": 87,
    "streams_group_heartbeat": 88,
    "streams_group_describe": 89,
    "describe_share_group_offsets": 90,
    "alter_share_group_offsets": 91,
    "delete_share_group_offsets": 92,
}
"""APIs of Kafka 4 that the codec does not know."""

ROUTES: Final[Mapping[int, Route]] = {
    ApiKey.FETCH: Route.FOLLOWER,
    ApiKey.LIST_OFFSETS: Route.FOLLOWER,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Route.FOLLOWER,
    ApiKey.LIST_GROUPS: Route.EMPTY,
    ApiKey.LIST_TRANSACTIONS: Route.EMPTY,
    ApiKey.DESCRIBE_LOG_DIRS: Route.EMPTY,
    ApiKey.PRODUCE: Route.PASSED_ON,
    ApiKey.METADATA: Route.PASSED_ON,
    ApiKey.OFFSET_COMMIT: Route.PASSED_ON,
    ApiKey.OFFSET_FETCH: Route.PASSED_ON,
    ApiKey.FIND_COORDINATOR: Route.PASSED_ON,
    ApiKey.JOIN_GROUP: Route.PASSED_ON,
    ApiKey.HEARTBEAT: Route.PASSED_ON,
    ApiKey.LEAVE_GROUP: Route.PASSED_ON,
    ApiKey.SYNC_GROUP: Route.PASSED_ON,
    ApiKey.DESCRIBE_GROUPS: Route.PASSED_ON,
    ApiKey.SASL_HANDSHAKE: Route.PASSED_ON,
    ApiKey.API_VERSIONS: Route.PASSED_ON,
    ApiKey.CREATE_TOPICS: Route.PASSED_ON,
    ApiKey.DELETE_TOPICS: Route.PASSED_ON,
    ApiKey.DELETE_RECORDS: Route.PASSED_ON,
    ApiKey.INIT_PRODUCER_ID: Route.PASSED_ON,
    ApiKey.ADD_PARTITIONS_TO_TXN: Route.PASSED_ON,
    ApiKey.ADD_OFFSETS_TO_TXN: Route.PASSED_ON,
    ApiKey.END_TXN: Route.PASSED_ON,
    ApiKey.WRITE_TXN_MARKERS: Route.PASSED_ON,
    ApiKey.TXN_OFFSET_COMMIT: Route.PASSED_ON,
    ApiKey.DESCRIBE_ACLS: Route.PASSED_ON,
    ApiKey.CREATE_ACLS: Route.PASSED_ON,
    ApiKey.DELETE_ACLS: Route.PASSED_ON,
    ApiKey.DESCRIBE_CONFIGS: Route.PASSED_ON,
    ApiKey.ALTER_CONFIGS: Route.PASSED_ON,
    ApiKey.SASL_AUTHENTICATE: Route.PASSED_ON,
    ApiKey.CREATE_PARTITIONS: Route.PASSED_ON,
    ApiKey.CREATE_DELEGATION_TOKEN: Route.PASSED_ON,
    ApiKey.RENEW_DELEGATION_TOKEN: Route.PASSED_ON,
    ApiKey.EXPIRE_DELEGATION_TOKEN: Route.PASSED_ON,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Route.PASSED_ON,
    ApiKey.DELETE_GROUPS: Route.PASSED_ON,
    ApiKey.ELECT_LEADERS: Route.PASSED_ON,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Route.PASSED_ON,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Route.PASSED_ON,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Route.PASSED_ON,
    ApiKey.OFFSET_DELETE: Route.PASSED_ON,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Route.PASSED_ON,
    ApiKey.ALTER_CLIENT_QUOTAS: Route.PASSED_ON,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Route.PASSED_ON,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Route.PASSED_ON,
    ApiKey.UPDATE_FEATURES: Route.PASSED_ON,
    ApiKey.DESCRIBE_CLUSTER: Route.PASSED_ON,
    ApiKey.DESCRIBE_PRODUCERS: Route.PASSED_ON,
    ApiKey.UNREGISTER_BROKER: Route.PASSED_ON,
    ApiKey.DESCRIBE_TRANSACTIONS: Route.PASSED_ON,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Route.PASSED_ON,
    ApiKey.CONSUMER_GROUP_DESCRIBE: Route.PASSED_ON,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Route.PASSED_ON,
    **dict.fromkeys(_NEWER.values(), Route.PASSED_ON),
}


def newest_version(key: int) -> int:
    """Return the newest version that the mirror answers itself."""
    api = APIS[key]
    return max(api.max_version, _SAME_TO_US.get(api.key, 0))


def limit_versions(response: messages.ApiVersionsResponse) -> None:
    """Leave of a broker's APIs those that the mirror takes, and of its own those versions that it answers."""
    response.api_keys = [each for each in response.api_keys if each.api_key in ROUTES]
    for each in response.api_keys:
        if ROUTES[each.api_key] is not Route.PASSED_ON:
            each.max_version = min(each.max_version, newest_version(each.api_key))


def make_empty_answer(key: int) -> messages.Message:
    """Return the response of a broker that coordinates nothing and keeps nothing."""
    if key == ApiKey.LIST_GROUPS:
        return messages.ListGroupsResponse(groups=[])
    if key == ApiKey.LIST_TRANSACTIONS:
        return messages.ListTransactionsResponse(unknown_state_filters=[], transaction_states=[])
    return messages.DescribeLogDirsResponse(results=[])


def has_answer(key: int, version: int, frame: Buffer) -> bool:
    """True if a broker answers the request: all but Produce with acks=0. Raises ProtocolViolation when it is cut.

    Produce of every version from 3 on begins with the transactional id and acks, also in those that the codec does not know.
    """
    if key != ApiKey.PRODUCE:
        return True
    try:
        position = read_request_header(frame, 2 if version >= _FLEXIBLE_PRODUCE else 1).body_position
        if version >= _FLEXIBLE_PRODUCE:
            length, position = read_uvarint(frame, position)
            position += max(0, length - 1)
        elif version >= APIS[key].kept_from:
            position += 2 + max(0, _SHORT.unpack_from(frame, position)[0])
        return bool(_SHORT.unpack_from(frame, position)[0])
    except (StructError, IndexError):
        raise ProtocolViolation("a Produce request is cut") from None
