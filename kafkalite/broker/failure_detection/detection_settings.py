"""The settings of failure detection (`kafkalite.failover.*`) as the detector needs them."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from kafkalite.config.broker import BrokerConfig


class DetectionMode(Enum):
    """SESSION leaves the verdict to ZooKeeper, OBSERVE notes what it would have done, EVIDENCE ends sessions."""

    SESSION = "session"
    OBSERVE = "observe"
    EVIDENCE = "evidence"


class DetectionSettings(NamedTuple):
    """Mode, times in milliseconds, and the names of the listeners whose refusals prove nothing."""

    mode: DetectionMode
    heartbeat_interval_ms: int
    silence_ms: int
    """0: silence is no evidence."""
    proxied_listeners: frozenset[str]


def read_detection_settings(config: BrokerConfig) -> DetectionSettings:
    """Return the settings of failure detection of a broker."""
    return DetectionSettings(
        DetectionMode(config.kafkalite_failover_detection),
        config.kafkalite_failover_heartbeat_interval_ms,
        config.kafkalite_failover_silence_ms,
        frozenset(name.upper() for name in config.kafkalite_failover_proxied_listeners if name),
    )
