"""The partition of an internal topic for a group or transactional id (Kafka's GroupMetadataManager.partitionFor)."""

from __future__ import annotations

from kafkalite.protocol.java_hash import java_abs, java_hash


def partition_for(key: str, partition_count: int) -> int:
    """Return the partition for a group id or transactional id."""
    return java_abs(java_hash(key)) % partition_count
