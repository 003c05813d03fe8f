"""Settings of a broker in one line."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig, LiveConfig

_BASE = {"broker.id": "0", "zookeeper.connect": "unused", "log.dirs": "unused"}


def broker_config(**settings: object) -> BrokerConfig:
    """`max_connections=3` is the setting max.connections; whatever is not given has its default."""
    return BrokerConfig.from_properties(_BASE | {name.replace("_", "."): str(each) for name, each in settings.items()})


def live_config(**settings: object) -> LiveConfig:
    """The same as a running broker's parts hold it."""
    return LiveConfig(broker_config(**settings))
