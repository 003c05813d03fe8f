"""Messages that kio does not ship, declared with the versions in which each field is present.

LeaderAndIsr, StopReplica, UpdateMetadata and ControlledShutdown left Kafka with ZooKeeper; AlterPartition 0 and 1 and Produce 0 to 2
are older than kio. The notation is that of Kafka's own message files: `"3+"`, `"0-4"`. The codec regroups old structures, so code sees
the newest one only (`adapters`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafkalite.protocol.schema import Field, Struct, zero_of

_DEFAULT = object()


@dataclass(frozen=True, slots=True)
class _Declared:
    """A field of a declared message and the versions that carry it."""

    name: str
    type: str | _Group
    versions: str = "0+"
    is_array: bool = False
    default: Any = _DEFAULT
    nullable: bool = False
    tag: int | None = None

    def field(self, version: int, flexible: bool) -> Field:
        inner = self.type.struct(version, flexible) if isinstance(self.type, _Group) else self.type
        default = zero_of(inner, self.nullable) if self.default is _DEFAULT else self.default
        return Field(self.name, inner, self.is_array, self.nullable, self.tag, None if self.is_array else default)


@dataclass(frozen=True, slots=True)
class _Group:
    """A declared struct."""

    name: str
    fields: tuple[_Declared, ...]

    def struct(self, version: int, flexible: bool) -> Struct:
        return Struct(
            self.name, tuple(f.field(version, flexible) for f in self.fields if _covers(f.versions, version)), flexible
        )


def _covers(versions: str, version: int) -> bool:
    first, _, last = versions.rstrip("+").partition("-")
    return version >= int(first) and (versions.endswith("+") or version <= int(last or first))


def _group(name: str, *fields: _Declared) -> _Group:
    return _Group(name, fields)


_f = _Declared


def _many(name: str, type_: str | _Group, versions: str = "0+") -> _Declared:
    return _Declared(name, type_, versions, is_array=True)


def _controller_head(kraft_from: int, broker_epoch_from: int) -> tuple[_Declared, ...]:
    return (
        _f("controller_id", "int32"),
        _f("is_kraft_controller", "bool", f"{kraft_from}+"),
        _f("controller_epoch", "int32"),
        _f("broker_epoch", "int64", f"{broker_epoch_from}+", default=-1),
    )


_LEADER_AND_ISR_PARTITION = _group(
    "PartitionState",
    _f("topic_name", "string", "0-1"),
    _f("partition_index", "int32"),
    _f("controller_epoch", "int32"),
    _f("leader", "int32"),
    _f("leader_epoch", "int32"),
    _many("isr", "int32"),
    _f("partition_epoch", "int32"),
    _many("replicas", "int32"),
    _many("adding_replicas", "int32", "3+"),
    _many("removing_replicas", "int32", "3+"),
    _f("is_new", "bool", "1+"),
    _f("leader_recovery_state", "int8", "6+"),
)

_UPDATE_METADATA_PARTITION = _group(
    "PartitionState",
    _f("topic_name", "string", "0-4"),
    _f("partition_index", "int32"),
    _f("controller_epoch", "int32"),
    _f("leader", "int32"),
    _f("leader_epoch", "int32"),
    _many("isr", "int32"),
    _f("zk_version", "int32"),
    _many("replicas", "int32"),
    _many("offline_replicas", "int32", "4+"),
)

_PARTITION_ERROR = _group(
    "PartitionError",
    _f("topic_name", "string"),
    _f("partition_index", "int32"),
    _f("error_code", "int16"),
)

_DECLARED: dict[str, _Group] = {
    "leader_and_isr_request": _group(
        "LeaderAndIsrRequest",
        *_controller_head(kraft_from=7, broker_epoch_from=2),
        _f("type", "int8", "5+"),
        _many("ungrouped_partition_states", _LEADER_AND_ISR_PARTITION, "0-1"),
        _many(
            "topic_states",
            _group(
                "TopicState",
                _f("topic_name", "string"),
                _f("topic_id", "uuid", "5+"),
                _many("partition_states", _LEADER_AND_ISR_PARTITION),
            ),
            "2+",
        ),
        _many(
            "live_leaders",
            _group("LiveLeader", _f("broker_id", "int32"), _f("host_name", "string"), _f("port", "int32")),
        ),
    ),
    "leader_and_isr_response": _group(
        "LeaderAndIsrResponse",
        _f("error_code", "int16"),
        _many(
            "partition_errors",
            _group(
                "PartitionError",
                _f("topic_name", "string", "0-4"),
                _f("partition_index", "int32"),
                _f("error_code", "int16"),
            ),
            "0-4",
        ),
        _many(
            "topics",
            _group(
                "TopicError",
                _f("topic_id", "uuid"),
                _many(
                    "partition_errors",
                    _group(
                        "PartitionError",
                        _f("topic_name", "string", "0-4"),
                        _f("partition_index", "int32"),
                        _f("error_code", "int16"),
                    ),
                ),
            ),
            "5+",
        ),
    ),
    "stop_replica_request": _group(
        "StopReplicaRequest",
        *_controller_head(kraft_from=4, broker_epoch_from=1),
        _f("delete_partitions", "bool", "0-2"),
        _many(
            "ungrouped_partitions",
            _group("UngroupedPartition", _f("topic_name", "string"), _f("partition_index", "int32")),
            "0",
        ),
        _many("topics", _group("Topic", _f("name", "string"), _many("partition_indexes", "int32")), "1-2"),
        _many(
            "topic_states",
            _group(
                "TopicState",
                _f("topic_name", "string"),
                _many(
                    "partition_states",
                    _group(
                        "PartitionState",
                        _f("partition_index", "int32"),
                        _f("leader_epoch", "int32", default=-1),
                        _f("delete_partition", "bool"),
                    ),
                ),
            ),
            "3+",
        ),
    ),
    "stop_replica_response": _group(
        "StopReplicaResponse", _f("error_code", "int16"), _many("partition_errors", _PARTITION_ERROR)
    ),
    "update_metadata_request": _group(
        "UpdateMetadataRequest",
        _f("controller_id", "int32"),
        _f("is_kraft_controller", "bool", "8+"),
        _f("type", "int8", "8+", tag=0),
        _f("controller_epoch", "int32"),
        _f("broker_epoch", "int64", "5+", default=-1),
        _many("ungrouped_partition_states", _UPDATE_METADATA_PARTITION, "0-4"),
        _many(
            "topic_states",
            _group(
                "TopicState",
                _f("topic_name", "string"),
                _f("topic_id", "uuid", "7+"),
                _many("partition_states", _UPDATE_METADATA_PARTITION),
            ),
            "5+",
        ),
        _many(
            "live_brokers",
            _group(
                "LiveBroker",
                _f("id", "int32"),
                _f("v0_host", "string", "0"),
                _f("v0_port", "int32", "0"),
                _many(
                    "endpoints",
                    _group(
                        "Endpoint",
                        _f("port", "int32"),
                        _f("host", "string"),
                        _f("listener", "string", "3+"),
                        _f("security_protocol", "int16"),
                    ),
                    "1+",
                ),
                _f("rack", "string", "2+", nullable=True, default=None),
            ),
        ),
    ),
    "update_metadata_response": _group("UpdateMetadataResponse", _f("error_code", "int16")),
    "controlled_shutdown_request": _group(
        "ControlledShutdownRequest", _f("broker_id", "int32"), _f("broker_epoch", "int64", "2+", default=-1)
    ),
    "controlled_shutdown_response": _group(
        "ControlledShutdownResponse",
        _f("error_code", "int16"),
        _many(
            "remaining_partitions",
            _group("RemainingPartition", _f("topic_name", "string"), _f("partition_index", "int32")),
        ),
    ),
    "alter_partition_request": _group(
        "AlterPartitionRequest",
        _f("broker_id", "int32"),
        _f("broker_epoch", "int64", default=-1),
        _many(
            "topics",
            _group(
                "TopicData",
                _f("topic_name", "string", "0-1"),
                _f("topic_id", "uuid", "2+"),
                _many(
                    "partitions",
                    _group(
                        "PartitionData",
                        _f("partition_index", "int32"),
                        _f("leader_epoch", "int32"),
                        _many("new_isr", "int32", "0-2"),
                        _many(
                            "new_isr_with_epochs",
                            _group("BrokerState", _f("broker_id", "int32"), _f("broker_epoch", "int64", default=-1)),
                            "3+",
                        ),
                        _f("leader_recovery_state", "int8", "1+"),
                        _f("partition_epoch", "int32"),
                    ),
                ),
            ),
        ),
    ),
    "alter_partition_response": _group(
        "AlterPartitionResponse",
        _f("throttle_time_ms", "int32"),
        _f("error_code", "int16"),
        _many(
            "topics",
            _group(
                "TopicData",
                _f("topic_name", "string", "0-1"),
                _f("topic_id", "uuid", "2+"),
                _many(
                    "partitions",
                    _group(
                        "PartitionData",
                        _f("partition_index", "int32"),
                        _f("error_code", "int16"),
                        _f("leader_id", "int32"),
                        _f("leader_epoch", "int32"),
                        _many("isr", "int32"),
                        _f("leader_recovery_state", "int8", "1+"),
                        _f("partition_epoch", "int32"),
                    ),
                ),
            ),
        ),
    ),
    "produce_request": _group(
        "ProduceRequest",
        _f("acks", "int16"),
        _f("timeout_ms", "int32"),
        _many(
            "topic_data",
            _group(
                "TopicProduceData",
                _f("name", "string"),
                _many(
                    "partition_data",
                    _group(
                        "PartitionProduceData",
                        _f("index", "int32"),
                        _f("records", "records", nullable=True, default=None),
                    ),
                ),
            ),
        ),
    ),
    "produce_response": _group(
        "ProduceResponse",
        _many(
            "responses",
            _group(
                "TopicProduceResponse",
                _f("name", "string"),
                _many(
                    "partition_responses",
                    _group(
                        "PartitionProduceResponse",
                        _f("index", "int32"),
                        _f("error_code", "int16"),
                        _f("base_offset", "int64"),
                        _f("log_append_time_ms", "int64", "2+", default=-1),
                    ),
                ),
            ),
        ),
        _f("throttle_time_ms", "int32", "1+"),
    ),
}

DECLARED_VERSIONS: dict[str, tuple[int, int]] = {
    "leader_and_isr": (0, 7),
    "stop_replica": (0, 4),
    "update_metadata": (0, 8),
    "controlled_shutdown": (0, 3),
    "alter_partition": (0, 3),
    "produce": (0, 2),
}
"""Versions of which the schema is declared here; kio has the others."""


def declared_struct(api_name: str, direction: str, version: int, flexible: bool) -> Struct:
    """The schema of a declared message in one version."""
    return _DECLARED[f"{api_name}_{direction}"].struct(version, flexible)


def declared_union(api_name: str, direction: str, flexible_from: int) -> list[Struct]:
    """The schemas of all declared versions, newest first, from which the unified shape is made."""
    first, last = DECLARED_VERSIONS[api_name]
    return [
        declared_struct(api_name, direction, version, version >= flexible_from)
        for version in range(last, first - 1, -1)
    ]
