"""The settings of group coordinators, under the names of Kafka's broker keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.protocol.inter_broker import ProtocolVersion

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig

_MINUTE_MS = 60_000
STATIC_MEMBERS_FROM = 3
"""Version of a group's record that has the instance ids of its members (KIP-345)."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Durations in ms; the record versions follow from inter.broker.protocol.version."""

    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3000
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 10_080 * _MINUTE_MS
    offsets_retention_check_interval_ms: int = 600_000
    new_member_join_timeout_ms: int = 300_000
    """Longest wait of a new member's first JoinGroup; a constant in Kafka."""
    offset_value_version: int = 3
    group_value_version: int = 3

    @property
    def has_static_members(self) -> bool:
        """True if group.instance.id is kept: below an inter.broker.protocol.version of 2.3 another coordinator would lose it."""
        return self.group_value_version >= STATIC_MEMBERS_FROM

    @classmethod
    def from_config(cls, config: BrokerConfig) -> GroupSettings:
        protocol = ProtocolVersion.parse(config.inter_broker_protocol_version)
        return cls(
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            max_size=config.group_max_size,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * _MINUTE_MS,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            offset_value_version=1 if protocol < (2, 1, 0) else 2 if protocol < (2, 1, 1) else 3,
            group_value_version=1 if protocol < (2, 1, 0) else 2 if protocol < (2, 3, 0) else 3,
        )
