"""The warning of `produce` about records that are too old for their topic: brokers delete by the timestamps of records (retention.ms).

A segment goes as soon as its youngest record is older than that, so records that were imported with their times of years ago may be
gone before anybody has read them.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalite.administration.record_lines import InputRecord

_RETENTION, _TYPE, _POLICY = "retention.ms", "message.timestamp.type", "cleanup.policy"
_PATIENCE_MS = 2000
"""The records are written; the hint must not take long."""


class OldestTimestamp:
    """Notes the oldest timestamp of records that pass through."""

    def __init__(self) -> None:
        self.timestamp_ms: int | None = None

    async def of(self, records: AsyncIterator[InputRecord]) -> AsyncIterator[InputRecord]:
        """Yield the records unchanged."""
        async for each in records:
            found = each.timestamp
            if found is not None and (self.timestamp_ms is None or found < self.timestamp_ms):
                self.timestamp_ms = found
            yield each


def retention_warning(topic: str, oldest_ms: int, configs: Mapping[str, str | None], now_ms: int) -> str | None:
    """Return the warning; None when retention does not delete the records. `configs` are the topic's."""
    if configs.get(_TYPE) != "CreateTime" or "delete" not in (configs.get(_POLICY) or ""):
        return None
    try:
        retention_ms = int(configs.get(_RETENTION) or -1)
    except ValueError:
        return None
    if retention_ms < 0 or oldest_ms < 0 or oldest_ms >= now_ms - retention_ms:
        return None
    when = datetime.fromtimestamp(oldest_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        f"warning: records have timestamps from {when} on, and {topic} keeps records for {_RETENTION}={retention_ms} after theirs: "
        f"brokers may delete them soon; keep them with kafkalite config set {_RETENTION}=-1 --topic {topic}"
    )


async def find_retention_warning(options: dict[str, Any], topic: str, oldest_ms: int | None) -> str | None:
    """Return the `retention_warning` for the topic's configuration; None also when that is unknown. `options` are an `Admin`'s."""
    if oldest_ms is None:
        return None
    from kafkalite.client import Admin, ClientError  # few records come with times of their own

    bounds = {"request_timeout_ms": _PATIENCE_MS, "default_api_timeout_ms": _PATIENCE_MS}
    try:
        async with Admin(**options | bounds) as admin:
            found = await admin.describe_configs("topic", topic, keys=[_RETENTION, _TYPE, _POLICY])
    except (ClientError, OSError):
        return None
    configs = {name: entry.value for name, entry in found.items()}
    return retention_warning(topic, oldest_ms, configs, time.time_ns() // 1_000_000)
