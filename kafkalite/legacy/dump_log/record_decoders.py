"""Keys and payloads as `kafka-dump-log` prints them: by decoder class, and for the coordinators' topics. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from kafkalite.legacy.command_line.failures import ToolError
from kafkalite.legacy.java.json_documents import as_json

_PACKAGE: Final = "org.apache.kafka.tools.api."
_OLD_PACKAGE: Final = "kafka.serializer."
_DECODERS: Final[dict[str, Callable[[bytes], str]]] = {
    "StringDecoder": lambda data: data.decode(errors="replace"),
    "DefaultDecoder": lambda data: data.decode(errors="replace"),
    "LongDecoder": lambda data: _number(">q", data),
    "IntegerDecoder": lambda data: _number(">i", data),
}


def _number(form: str, data: bytes) -> str:
    if len(data) < struct.calcsize(form):
        raise ToolError(None, "java.nio.BufferUnderflowException")
    return str(struct.unpack_from(form, data)[0])


def by_class(key_class: str, value_class: str) -> Callable[[dict[str, Any]], tuple[str | None, str | None]]:
    """Return the parser that decodes keys and values with decoders of these class names. Raises ToolError for unknown classes."""
    of_value, of_key = _decoder(value_class), _decoder(key_class)

    def parse(record: dict[str, Any]) -> tuple[str | None, str | None]:
        key, value = record["key"], record["value"]
        return None if key is None else of_key(key), None if value is None else of_value(value)

    return parse


def _decoder(name: str) -> Callable[[bytes], str]:
    short = name.rpartition(".")[2]
    if name.startswith(_OLD_PACKAGE) and short in _DECODERS:
        print(f"{name} is deprecated. Please use {_PACKAGE}{short} instead")
    elif name != f"{_PACKAGE}{short}" or short not in _DECODERS:
        raise ToolError(name, "java.lang.ClassNotFoundException")
    return _DECODERS[short]


# __consumer_offsets


def offsets(record: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return key and payload as JSON with their versions; "<DELETE>" for no payload. Raises ToolError for a record without a key."""
    from kafkalite.coordinators.group import group_record, offset_record

    key, value = record["key"], record["value"]
    if key is None:
        raise ToolError(
            f"Failed to decode message at offset {record['offset']} using offset topic decoder "
            "(message had a missing key)",
            "java.lang.RuntimeException",
        )
    version = struct.unpack_from(">h", key)[0]
    try:
        if version in offset_record.KEY_VERSIONS:
            group, topic, partition = offset_record.decode_key(key)
            shown_key: dict[str, Any] = {"group": group, "topic": topic, "partition": partition}
        elif version == group_record.KEY_VERSION:
            shown_key = {"group": group_record.decode_key(key)}
        else:
            return f"Unknown record type {version} at offset {record['offset']}, skipping.", None
        payload = "<DELETE>" if value is None else _payload(value, of_group=version == group_record.KEY_VERSION)
    except (ValueError, struct.error) as problem:
        return f"Error at offset {record['offset']}, skipping. {problem}", None
    return as_json({"type": str(version), "data": shown_key}), payload


def transactions(record: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return key and payload of `__transaction_state` as text; "<DELETE>" for no payload. Raises ToolError for an invalid record.

    Partitions are sorted, where Kafka prints them in hash order.
    """
    from kafkalite.coordinators.transaction import transaction_record

    key, value = record["key"], record["value"]
    try:
        version = struct.unpack_from(">h", key or b"")[0]
        if version != transaction_record.KEY_VERSION:
            return f"unknown::version={version}", None
        shown = f"transaction_metadata::transactionalId={transaction_record.decode_key(key)}"
        if value is None:
            return shown, "<DELETE>"
        found = transaction_record.decode_value(value)
    except (ValueError, struct.error) as problem:
        raise ToolError(f"Failed to decode message at offset {record['offset']}: {problem}") from None
    partitions = [f"{topic}-{each}" for topic in sorted(found.partitions) for each in sorted(found.partitions[topic])]
    return shown, (
        f"producerId:{found.producer_id},producerEpoch:{found.producer_epoch},state={found.state.label},"
        f"partitions=[{','.join(partitions)}],txnLastUpdateTimestamp={found.last_update_ms},txnTimeoutMs={found.timeout_ms}"
    )


def _payload(value: bytes, *, of_group: bool) -> str:
    from kafkalite.legacy.console import coordinator_formatters

    version = struct.unpack_from(">h", value)[0]
    if not of_group:
        return as_json({"version": str(version), "data": coordinator_formatters.offset_fields(value, version)})
    fields = coordinator_formatters.group_fields(value, version)
    if fields["protocolType"] == "consumer":
        for member, stored in zip(fields["members"], coordinator_formatters.members_of(value), strict=True):
            member["subscription"] = _subscription(stored.subscription, member["subscription"])
            member["assignment"] = _assignment(stored.assignment, member["assignment"])
    return as_json({"version": str(version), "data": fields})


def _subscription(data: bytes, encoded: str) -> Any:
    from kafkalite.client.group.consumer_protocol import decode_subscription

    try:
        found = decode_subscription(data)
        version = struct.unpack_from(">h", data)[0]
    except (ValueError, struct.error):
        return encoded
    fields: dict[str, Any] = {"topics": list(found.topics), "userData": _base64(found.user_data)}
    if version >= 1:
        fields["ownedPartitions"] = _by_topic(found.owned_partitions)
    if version >= 2:
        fields["generationId"] = found.generation_id
    if version >= 3:
        fields["rackId"] = found.rack_id
    return fields


def _assignment(data: bytes, encoded: str) -> Any:
    from kafkalite.client.group.consumer_protocol import decode_assignment

    try:
        found = decode_assignment(data)
    except (ValueError, struct.error):
        return encoded
    return {"assignedPartitions": _by_topic(found.partitions), "userData": _base64(found.user_data)}


def _by_topic(partitions: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return [{"topic": topic, "partitions": numbers} for topic, numbers in grouped.items()]


def _base64(data: bytes | None) -> str | None:
    import base64

    return None if data is None else base64.b64encode(data).decode()
