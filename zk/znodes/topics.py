"""`/brokers/topics/<t>` and `.../partitions/<p>/state`: who holds a topic's partitions, and who leads them.

Topic ids stay as the 22 characters of the znode; partition epoch and broker epoch are znode versions and not in the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zk.znodes.fields import Fields, to_json

_INDEX_DIGITS = 10
"""Of 2**31: partitions have fewer."""

Replicas = Mapping[int, tuple[int, ...]]
"""Broker ids by partition index."""


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """Replicas by partition, the first one preferred as leader. Version 3 is written, versions 1 to 3 are read.

    `adding` and `removing` hold only partitions that are being reassigned (KIP-455; version 2). `topic_id` is None in
    topics made before 2.8 or by its tools (KIP-516; version 3).
    """

    partitions: Replicas
    topic_id: str | None = None
    adding: Replicas = field(default_factory=dict)
    removing: Replicas = field(default_factory=dict)

    def encode(self) -> bytes:
        """Partitions in the order of the mapping; empty lists of adding and removing replicas are left out."""
        document: dict[str, Any] = {"partitions": _encode_replicas(self.partitions)}
        if self.topic_id is not None:
            document["topic_id"] = self.topic_id
        document["adding_replicas"] = _encode_replicas(_without_empty(self.adding))
        document["removing_replicas"] = _encode_replicas(_without_empty(self.removing))
        document["version"] = 3
        return to_json(document)

    @classmethod
    def decode(cls, data: bytes) -> TopicAssignment:
        """Raises MalformedZnodeError when it is no JSON or a partition makes no sense; without `partitions` it has none."""
        fields = Fields.parse("topic", data)
        return cls(
            _decode_replicas(fields, "partitions"),
            fields.text("topic_id") if fields.has("topic_id") else None,
            _without_empty(_decode_replicas(fields, "adding_replicas")),
            _without_empty(_decode_replicas(fields, "removing_replicas")),
        )


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Leader (-1 for none) and in-sync replicas, in no particular order, as of `leader_epoch`.

    `recovering` marks a leader that was elected uncleanly (KIP-704).
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    recovering: bool = False

    def encode(self) -> bytes:
        """Version 1."""
        document: dict[str, Any] = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
            "leader_epoch": self.leader_epoch,
            "isr": self.isr,
        }
        if self.recovering:
            document["leader_recovery_state"] = 1
        return to_json(document)

    @classmethod
    def decode(cls, data: bytes) -> PartitionState:
        """Raises MalformedZnodeError when something is missing, or the ISR empty, from which nobody could ever be elected."""
        fields = Fields.parse("partition state", data)
        recovery_state = fields.integer("leader_recovery_state", 0)
        if recovery_state not in (0, 1):
            raise fields.refuse(f"leader_recovery_state is {recovery_state}, neither 0 nor 1")
        state = cls(
            leader=fields.integer("leader", lowest=-1),
            leader_epoch=fields.integer("leader_epoch", lowest=0),
            isr=fields.brokers("isr"),
            controller_epoch=fields.integer("controller_epoch", lowest=0),
            recovering=recovery_state == 1,
        )
        if not state.isr:
            raise fields.refuse("isr is empty")
        return state


def _without_empty(replicas: Replicas) -> dict[int, tuple[int, ...]]:
    return {partition: brokers for partition, brokers in replicas.items() if brokers}


def _encode_replicas(replicas: Replicas) -> dict[str, tuple[int, ...]]:
    return {str(partition): brokers for partition, brokers in replicas.items()}


def _decode_replicas(fields: Fields, key: str) -> dict[int, tuple[int, ...]]:
    replicas = {}
    for partition, brokers in fields.mapping(key).items():
        if not (partition.isdecimal() and len(partition) < _INDEX_DIGITS):
            raise fields.refuse(f"{key} has a partition {partition[:80]!r} that is no number of a partition")
        replicas[int(partition)] = fields.broker_list(f"{key} of partition {partition}", brokers)
    return replicas
