"""Formatters of `kafka-console-consumer` for the records of `__consumer_offsets` and `__transaction_state`: as JSON, and as the Scala
classes printed them. Pure."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kafkalite.coordinators.group import group_record, offset_record
from kafkalite.coordinators.transaction import transaction_record
from kafkalite.legacy.java.json_documents import as_json

if TYPE_CHECKING:
    from kafkalite.client.consumer_record import ConsumerRecord
    from kafkalite.coordinators.group.group_record import StoredGroup, StoredMember

_UNKNOWN: Final = "unknown"
_PACKAGE: Final = "org.apache.kafka.tools.consumer."
_MANAGER: Final = "kafka.coordinator.group.GroupMetadataManager$"
_TRANSACTION_LOG: Final = "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter"


def _version(data: bytes) -> int:
    return struct.unpack_from(">h", data)[0] if len(data) >= 2 else -1


def _offsets_as_text(record: ConsumerRecord) -> bytes:
    if record.key is None or _version(record.key) not in offset_record.KEY_VERSIONS:
        return b""
    key = ",".join(str(each) for each in offset_record.decode_key(record.key))
    if record.value is None:
        return f"[{key}]::NULL\n".encode()
    found = offset_record.decode_value(record.value)
    epoch = "Optional.empty" if found.leader_epoch < 0 else f"Optional[{found.leader_epoch}]"
    expiry = "None" if found.expire_timestamp < 0 else f"Some({found.expire_timestamp})"
    return (
        f"[{key}]::OffsetAndMetadata(offset={found.offset}, leaderEpoch={epoch}, metadata={found.metadata}, "
        f"commitTimestamp={found.commit_timestamp}, expireTimestamp={expiry})\n"
    ).encode()


def _groups_as_text(record: ConsumerRecord) -> bytes:
    if record.key is None or _version(record.key) != group_record.KEY_VERSION:
        return b""
    group_id = group_record.decode_key(record.key)
    if record.value is None:
        return f"{group_id}::NULL\n".encode()
    found = group_record.decode_value(record.value)
    members = ", ".join(f"{each.member_id} -> {_member_as_text(each, found)}" for each in found.members)
    return (
        f"{group_id}::GroupMetadata(groupId={group_id}, generation={found.generation}, "
        f"protocolType={f'Some({found.protocol_type})' if found.protocol_type else 'None'}, "
        f"currentState={'Stable' if found.members else 'Empty'}, members=HashMap({members}))\n"
    ).encode()


def _member_as_text(member: StoredMember, group: StoredGroup) -> str:
    instance = "None" if member.instance_id is None else f"Some({member.instance_id})"
    return (
        f"MemberMetadata(memberId={member.member_id}, groupInstanceId={instance}, clientId={member.client_id}, "
        f"clientHost={member.client_host}, sessionTimeoutMs={member.session_timeout_ms}, "
        f"rebalanceTimeoutMs={member.rebalance_timeout_ms}, supportedProtocols=List({group.protocol}))"
    )


def _offsets_as_json(record: ConsumerRecord) -> bytes:
    version = -1 if record.key is None else _version(record.key)
    if version == group_record.KEY_VERSION:
        return b""
    key: Any = _UNKNOWN
    if version in offset_record.KEY_VERSIONS and record.key is not None:
        group, topic, partition = offset_record.decode_key(record.key)
        key = {"group": group, "topic": topic, "partition": partition}
    return _as_json(record, key, offset_fields)


def offset_fields(value: bytes, version: int) -> dict[str, Any]:
    found = offset_record.decode_value(value)
    fields: dict[str, Any] = {"offset": found.offset}
    if version >= 3:
        fields["leaderEpoch"] = found.leader_epoch
    fields |= {"metadata": found.metadata, "commitTimestamp": found.commit_timestamp}
    if version == offset_record.WITH_EXPIRY_VERSION:
        fields["expireTimestamp"] = found.expire_timestamp
    return fields


def _groups_as_json(record: ConsumerRecord) -> bytes:
    version = -1 if record.key is None else _version(record.key)
    if version in offset_record.KEY_VERSIONS:
        return b""
    key: Any = _UNKNOWN
    if version == group_record.KEY_VERSION and record.key is not None:
        key = {"group": group_record.decode_key(record.key)}
    return _as_json(record, key, group_fields)


def group_fields(value: bytes, version: int) -> dict[str, Any]:
    found = group_record.decode_value(value)
    fields: dict[str, Any] = {
        "protocolType": found.protocol_type,
        "generation": found.generation,
        "protocol": found.protocol,
        "leader": found.leader,
    }
    if version >= 2:
        fields["currentStateTimestamp"] = found.state_timestamp
    return {**fields, "members": [_member_fields(each, version) for each in found.members]}


def members_of(value: bytes) -> tuple[StoredMember, ...]:
    return group_record.decode_value(value).members


def _member_fields(member: StoredMember, version: int) -> dict[str, Any]:
    fields: dict[str, Any] = {"memberId": member.member_id}
    if version >= 3:
        fields["groupInstanceId"] = member.instance_id
    fields |= {"clientId": member.client_id, "clientHost": member.client_host}
    if version >= 1:
        fields["rebalanceTimeout"] = member.rebalance_timeout_ms
    return {
        **fields,
        "sessionTimeout": member.session_timeout_ms,
        "subscription": base64.b64encode(member.subscription).decode(),
        "assignment": base64.b64encode(member.assignment).decode(),
    }


def _transactions_as_text(record: ConsumerRecord) -> bytes:
    """Return a record of `__transaction_state` as text. Partitions are sorted, where Kafka prints them in hash order. Raises ValueError for
    an invalid value.
    """
    if record.key is None:
        return b""
    version = _version(record.key)
    if version != transaction_record.KEY_VERSION:
        return f"unknown::version={version}\n".encode()
    transactional_id = transaction_record.decode_key(record.key)
    if record.value is None:
        return f"{transactional_id}::NULL\n".encode()
    found = transaction_record.decode_value(record.value)
    partitions = [f"{topic}-{each}" for topic in sorted(found.partitions) for each in sorted(found.partitions[topic])]
    return (
        f"{transactional_id}::TransactionMetadata(transactionalId={transactional_id}, producerId={found.producer_id}, "
        f"producerEpoch={found.producer_epoch}, txnTimeoutMs={found.timeout_ms}, state={found.state.label}, "
        f"pendingState=None, topicPartitions=HashSet({', '.join(partitions)}), txnStartTimestamp={found.start_ms}, "
        f"txnLastUpdateTimestamp={found.last_update_ms})\n"
    ).encode()


def _transactions_as_json(record: ConsumerRecord) -> bytes:
    key: Any = _UNKNOWN
    if record.key is not None and _version(record.key) == transaction_record.KEY_VERSION:
        key = {"transactionalId": transaction_record.decode_key(record.key)}
    return _as_json(record, key, _transaction_fields)


def _transaction_fields(value: bytes, version: int) -> dict[str, Any]:
    """Return the fields of a value of any version. Partitions are sorted, where Kafka keeps them as they were written."""
    found = transaction_record.decode_value(value)
    partitions = [
        {"topic": topic, "partitionIds": sorted(found.partitions[topic])} for topic in sorted(found.partitions)
    ]
    return {
        "producerId": found.producer_id,
        "producerEpoch": found.producer_epoch,
        "transactionTimeoutMs": found.timeout_ms,
        "transactionStatus": int(found.state),
        "transactionPartitions": None if found.state is transaction_record.TransactionState.EMPTY else partitions,
        "transactionLastUpdateTimestampMs": found.last_update_ms,
        "transactionStartTimestampMs": found.start_ms,
    }


def _as_json(record: ConsumerRecord, key: Any, fields_of: Callable[[bytes, int], dict[str, Any]]) -> bytes:
    """Return one JSON object without a line end, as Kafka writes it."""
    shown: dict[str, Any] = {"key": None, "value": None}
    if record.key is not None:
        shown["key"] = {"version": _version(record.key), "data": key}
    if record.value is not None:
        version = _version(record.value)
        try:
            data: Any = fields_of(record.value, version)
        except (ValueError, struct.error):
            data = _UNKNOWN
        shown["value"] = {"version": version, "data": data}
    return as_json(shown).encode()


BY_CLASS: Final[dict[str, Callable[[ConsumerRecord], bytes]]] = {
    f"{_PACKAGE}OffsetsMessageFormatter": _offsets_as_json,
    f"{_PACKAGE}GroupMetadataMessageFormatter": _groups_as_json,
    f"{_PACKAGE}TransactionLogMessageFormatter": _transactions_as_json,
    f"{_MANAGER}OffsetsMessageFormatter": _offsets_as_text,
    f"{_MANAGER}GroupMetadataMessageFormatter": _groups_as_text,
    _TRANSACTION_LOG: _transactions_as_text,
}
SUCCESSORS: Final = {
    f"{_MANAGER}OffsetsMessageFormatter": f"{_PACKAGE}OffsetsMessageFormatter",
    f"{_MANAGER}GroupMetadataMessageFormatter": f"{_PACKAGE}GroupMetadataMessageFormatter",
    _TRANSACTION_LOG: f"{_PACKAGE}TransactionLogMessageFormatter",
}
