"""The settings of the controller; replaced as a whole when the broker's dynamic configuration changes."""

from __future__ import annotations

from dataclasses import dataclass

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.zookeeper_keys import jute_maxbuffer
from kafkalite.protocol.inter_broker import InterBrokerVersions, ProtocolVersion
from kafkalite.types import BrokerId
from zk.size_limits import SizeLimits


@dataclass(frozen=True)
class ControllerSettings:
    """Settings under the names of the broker's keys; `size_limits` are those of kafkalite.zookeeper.jute.maxbuffer."""

    broker_id: BrokerId = 0
    control_listener: str = "PLAINTEXT"
    inter_broker_protocol_version: ProtocolVersion = ProtocolVersion(3, 9, 0)
    unclean_leader_election_enable: bool = False
    delete_topic_enable: bool = True
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    controller_socket_timeout_ms: int = 30_000
    size_limits: SizeLimits = SizeLimits()

    @classmethod
    def from_config(cls, broker_id: BrokerId, config: BrokerConfig) -> ControllerSettings:
        """Return the controller's settings from a broker's configuration; `broker_id` may have been generated."""
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
            size_limits=SizeLimits.of(jute_maxbuffer(config.kafkalite_zookeeper_jute_maxbuffer)),
        )

    @property
    def request_versions(self) -> InterBrokerVersions:
        """Return the API versions of the controller's requests."""
        return self.inter_broker_protocol_version.requests
