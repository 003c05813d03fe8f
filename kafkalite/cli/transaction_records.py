"""Records of `__transaction_state` as plain values, for `kafkalite log dump --records`. Pure."""

from __future__ import annotations

import struct
from typing import Any

from kafkalite.coordinators.transaction import transaction_record


def decode_record(key: bytes | None, value: bytes | None) -> tuple[dict[str, Any], dict[str, Any] | None] | None:
    """Return key and value, None for a tombstone's value; None for another record. Partitions are sorted, times in ms since 1970."""
    try:
        if key is None or int.from_bytes(key[:2], "big") != transaction_record.KEY_VERSION:
            return None
        shown = {"transactional_id": transaction_record.decode_key(key)}
        if value is None:
            return shown, None
        found = transaction_record.decode_value(value)
    except (ValueError, IndexError, struct.error):
        return None
    return shown, {
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "state": found.state.label,
        "partitions": [
            f"{topic}-{each}" for topic in sorted(found.partitions) for each in sorted(found.partitions[topic])
        ],
        "last_update_ms": found.last_update_ms,
        "start_ms": found.start_ms,
    }
