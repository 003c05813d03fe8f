"""The settings that the controller obeys, and what the inter-broker protocol version lets it send.

Controller connections do not exchange ApiVersions: the sender's own `inter.broker.protocol.version` decides (see the
table in Kafka's AbstractControllerBrokerRequestBatch). `ControllerSettings` is replaced as a whole when the broker's
dynamic configuration changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kafkalite.config.broker import BrokerConfig
from kafkalite.types import BrokerId

_LAST_STEP = 99


class ProtocolVersion(NamedTuple):
    """An inter.broker.protocol.version; "2.8" alone means its last intermediate step."""

    major: int
    minor: int
    step: int = _LAST_STEP

    @classmethod
    def parse(cls, text: str) -> ProtocolVersion:
        """ "2.7-IV2", "3.9", "0.10.2". ValueError when it is none of these forms."""
        match = re.fullmatch(r"(?:0\.)?(\d+)\.(\d+)(?:\.\d+)?(?:-IV(\d+))?", text.strip())
        if match is None:
            raise ValueError(f"inter.broker.protocol.version {text!r} has no form like 3.9 or 2.7-IV2")
        major, minor, step = match.groups()
        if text.strip().startswith("0."):
            return cls(0, int(major), _LAST_STEP if step is None else int(step))
        return cls(int(major), int(minor), _LAST_STEP if step is None else int(step))


class RequestVersions(NamedTuple):
    """The versions in which the controller sends its requests."""

    leader_and_isr: int
    update_metadata: int
    stop_replica: int


_REQUEST_VERSIONS: tuple[tuple[ProtocolVersion, RequestVersions], ...] = (
    (ProtocolVersion(3, 4, 0), RequestVersions(7, 8, 4)),
    (ProtocolVersion(3, 2, 0), RequestVersions(6, 7, 3)),
    (ProtocolVersion(2, 8, 1), RequestVersions(5, 7, 3)),
    (ProtocolVersion(2, 6, 0), RequestVersions(4, 6, 3)),
    (ProtocolVersion(2, 4, 1), RequestVersions(4, 6, 2)),
    (ProtocolVersion(2, 4, 0), RequestVersions(3, 5, 1)),
    (ProtocolVersion(2, 2, 0), RequestVersions(2, 5, 1)),
    (ProtocolVersion(1, 0, 0), RequestVersions(1, 4, 0)),
    (ProtocolVersion(0, 0, 0), RequestVersions(0, 3, 0)),
)


@dataclass(frozen=True)
class ControllerSettings:
    """See the module; the names are those of the broker's settings."""

    broker_id: BrokerId = 0
    control_listener: str = "PLAINTEXT"
    inter_broker_protocol_version: ProtocolVersion = ProtocolVersion(3, 9, 0)
    unclean_leader_election_enable: bool = False
    delete_topic_enable: bool = True
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    controller_socket_timeout_ms: int = 30_000

    @classmethod
    def from_config(cls, broker_id: BrokerId, config: BrokerConfig) -> ControllerSettings:
        """What of a broker's configuration concerns the controller; `broker_id` may have been generated."""
        return cls(
            broker_id=broker_id,
            control_listener=config.control_plane_listener_name or config.inter_broker_listener_name,
            inter_broker_protocol_version=ProtocolVersion.parse(config.inter_broker_protocol_version),
            unclean_leader_election_enable=config.topic_defaults.unclean_leader_election_enable,
            delete_topic_enable=config.delete_topic_enable,
            auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
            leader_imbalance_check_interval_seconds=config.leader_imbalance_check_interval_seconds,
            leader_imbalance_per_broker_percentage=config.leader_imbalance_per_broker_percentage,
            controller_socket_timeout_ms=config.controller_socket_timeout_ms,
        )

    @cached_property
    def request_versions(self) -> RequestVersions:
        return next(v for since, v in _REQUEST_VERSIONS if self.inter_broker_protocol_version >= since)

    @cached_property
    def writes_features(self) -> bool:
        """/feature is managed (KIP-584)."""
        return self.inter_broker_protocol_version >= ProtocolVersion(2, 7, 0)

    @cached_property
    def leaders_write_isr(self) -> bool:
        """Leaders write ISR changes to ZooKeeper themselves instead of asking by AlterPartition (KIP-497)."""
        return self.inter_broker_protocol_version < ProtocolVersion(2, 7, 2)

    @cached_property
    def gives_topic_ids(self) -> bool:
        """Topics have ids (KIP-516)."""
        return self.inter_broker_protocol_version >= ProtocolVersion(2, 8, 0)

    @cached_property
    def marks_recovering_leaders(self) -> bool:
        """An unclean leader is marked as RECOVERING (KIP-704)."""
        return self.inter_broker_protocol_version >= ProtocolVersion(3, 2, 0)
