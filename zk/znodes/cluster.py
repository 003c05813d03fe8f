"""Znodes that exist once for the cluster: `/cluster/id`, `/latest_producer_id_block` and `/feature`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from zk.znodes.fields import Fields, to_json

_CLUSTER_ID_MAX = 1_000


@dataclass(frozen=True, slots=True)
class ClusterId:
    """`/cluster/id`: 22 characters of URL-safe base64, made by the first broker. Its version is the string "1"."""

    cluster_id: str

    def encode(self) -> bytes:
        return to_json({"version": "1", "id": self.cluster_id})

    @classmethod
    def decode(cls, data: bytes) -> ClusterId:
        """Raises MalformedZnodeError when the id is missing or no message could carry it."""
        fields = Fields.parse("cluster id", data)
        cluster_id = fields.text("id")
        if not 0 < len(cluster_id) <= _CLUSTER_ID_MAX:
            raise fields.refuse(f"id has {len(cluster_id)} characters")
        return cls(cluster_id)


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """`/latest_producer_id_block`: the block of producer ids given out last, both bounds inclusive. Version 1.

    The znode exists without data before the first block: `decode` gives None then.
    """

    broker_id: int
    first_producer_id: int
    last_producer_id: int

    def encode(self) -> bytes:
        return to_json(
            {
                "version": 1,
                "broker": self.broker_id,
                "block_start": str(self.first_producer_id),
                "block_end": str(self.last_producer_id),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> ProducerIdBlock | None:
        """None for empty data. Raises MalformedZnodeError when something is missing or the bounds are crossed."""
        if not data:
            return None
        fields = Fields.parse("producer id block", data)
        block = cls(fields.integer("broker"), fields.integer_text("block_start"), fields.integer_text("block_end"))
        if block.first_producer_id < 0:
            raise fields.refuse(f"block_start {block.first_producer_id} is negative")
        if block.last_producer_id < block.first_producer_id:
            raise fields.refuse(f"block_end {block.last_producer_id} is below block_start {block.first_producer_id}")
        return block


class FeatureStatus(IntEnum):
    """States whether the cluster's brokers take part in feature versioning (KIP-584)."""

    DISABLED = 0
    ENABLED = 1


@dataclass(frozen=True, slots=True)
class Feature:
    """`/feature`: finalized feature levels. Version 2 is written, 1 and 2 are read; a level is the highest one allowed."""

    status: FeatureStatus = FeatureStatus.ENABLED
    features: Mapping[str, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        levels = {name: {"max_version_level": level} for name, level in self.features.items()}
        return to_json({"features": levels, "version": 2, "status": int(self.status)})

    @classmethod
    def decode(cls, data: bytes) -> Feature:
        """Raises MalformedZnodeError for other versions, an unknown status or a feature without a level."""
        fields = Fields.parse("feature", data)
        fields.version(1, 2)
        status = fields.integer("status")
        if status not in (FeatureStatus.DISABLED, FeatureStatus.ENABLED):
            raise fields.refuse(f"status {status} is neither 0 nor 1")
        levels = {
            name: _level(fields, name, value) for name, value in fields.mapping("features", required=True).items()
        }
        return cls(FeatureStatus(status), levels)


def _level(fields: Fields, name: str, value: Any) -> int:
    if not isinstance(value, dict):
        raise fields.refuse(f"feature {name} is not an object")
    return Fields(fields.kind, value).integer("max_version_level", bits=16)
