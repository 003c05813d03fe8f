"""Which partition of an internal topic a group or a transactional id belongs to (GroupMetadataManager.partitionFor)."""

from __future__ import annotations

from kafkalite.protocol.java_hash import java_abs, java_hash


def partition_for(key: str, partition_count: int) -> int:
    """The partition of the key."""
    return java_abs(java_hash(key)) % partition_count
