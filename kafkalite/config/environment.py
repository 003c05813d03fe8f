"""Settings from the variables of a container, as the images cp-kafka, cp-zookeeper and apache/kafka read them.

`KAFKA_LOG_RETENTION_MS` is `log.retention.ms`: `_` stands for a dot, `__` for an underscore, `___` for a hyphen.
`ZOOKEEPER_TICK_TIME` is `tickTime`; `ZOOKEEPER_SERVER_ID` and `ZOOKEEPER_SERVERS` make a server a member of an ensemble.

Variables of a KRaft broker are taken as far as they have a meaning here: who asks for process roles that include `broker`
gets a broker on a ZooKeeper of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkalite.config.keys import ConfigError, split_list

BROKER_DATA: Final = "/var/lib/kafka/data"
ZOOKEEPER_DATA: Final = "/var/lib/zookeeper/data"
ZOOKEEPER_LOG: Final = "/var/lib/zookeeper/log"

_NO_SETTINGS: Final = frozenset(
    {
        *("LOG4J_OPTS", "LOG4J_ROOT_LOGLEVEL", "LOG4J_LOGGERS", "TOOLS_LOG4J_LOGLEVEL"),
        *("OPTS", "HEAP_OPTS", "JMX_OPTS", "JMX_PORT", "JMX_HOSTNAME", "JVM_PERFORMANCE_OPTS", "GC_LOG_OPTS"),
        *("VERSION", "DEBUG", "HOME", "CLUSTER_ID", "ZOOKEEPER_CLIENT_CNXN_SOCKET"),
    }
)
"""Variables that the scripts of those images read themselves."""

_OF_KUBERNETES: Final = r"(PORT|SERVICE_(HOST|PORT\w*)|PORT_\d+_(TCP|UDP)\w*)"
"""Kubernetes gives every container variables like these of each service; one named `kafka` would look like settings."""

_SEPARATORS: Final = {"___": "-", "__": "_", "_": "."}
_KRAFT_ONLY: Final = frozenset({"process.roles", "controller.quorum.voters", "controller.listener.names", "node.id"})
_DOTTED_ZOOKEEPER: Final = {
    "AUTOPURGE_SNAP_RETAIN_COUNT": "autopurge.snapRetainCount",
    "AUTOPURGE_PURGE_INTERVAL": "autopurge.purgeInterval",
    "4LW_COMMANDS_WHITELIST": "4lw.commands.whitelist",
    "ADMIN_ENABLE_SERVER": "admin.enableServer",
    "QUORUM_LISTEN_ON_ALL_IPS": "quorumListenOnAllIPs",
}
_ZOOKEEPER_NO_SETTINGS: Final = frozenset({"SERVER_ID", "SERVERS", "LOG4J_ROOT_LOGLEVEL", "LOG4J_LOGGERS", "HOME"})


class ContainerSettings(NamedTuple):
    """The settings of the servers in a container: a broker, a ZooKeeper server or both; None for what does not."""

    broker: dict[str, str] | None
    zookeeper: dict[str, str] | None
    zookeeper_id: int | None
    """`myid` of a member of an ensemble."""


def container_settings(environment: Mapping[str, str], hostname: str) -> ContainerSettings:
    """Return the settings of the servers. Raises ConfigError when variables are missing or contradict each other."""
    given = {name: text for name, text in environment.items() if text}
    if ("ZOOKEEPER_CLIENT_PORT" in given or "ZOOKEEPER_SERVERS" in given) and "KAFKA_ZOOKEEPER_CONNECT" not in given:
        properties, server_id = _zookeeper(given)
        return ContainerSettings(None, properties, server_id)
    settings = broker_settings(given)
    own_zookeeper = "zookeeper.connect" not in settings
    if own_zookeeper:
        settings["zookeeper.connect"] = "localhost:2181"
        settings.setdefault("broker.id", "1")
    _complete_listeners(settings, "localhost" if own_zookeeper else hostname)
    settings.setdefault("log.dirs", settings.get("log.dir", BROKER_DATA))
    return ContainerSettings(settings, _own_zookeeper() if own_zookeeper else None, None)


def broker_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the `KAFKA_*` variables, without defaults. Raises ConfigError for a KRaft controller."""
    settings = {}
    for variable, text in environment.items():
        prefix, _, name = variable.partition("_")
        if prefix == "KAFKA" and name and name not in _NO_SETTINGS and not re.fullmatch(_OF_KUBERNETES, name):
            settings[re.sub("_{1,3}", lambda match: _SEPARATORS[match[0]], name).lower()] = text
    return _without_kraft(settings) if "process.roles" in settings else settings


def as_variables(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the settings as variables of a container, which `broker_settings` reads back."""
    return {
        "KAFKA_" + name.replace("_", "__").replace("-", "___").replace(".", "_").upper(): text
        for name, text in properties.items()
    }


def _without_kraft(settings: dict[str, str]) -> dict[str, str]:
    roles = split_list(settings["process.roles"])
    if "broker" not in roles:
        raise ConfigError(
            f"KAFKA_PROCESS_ROLES={settings['process.roles']} asks for a KRaft controller, and brokers of this image are "
            "coordinated by ZooKeeper; leave this container out and give the brokers KAFKA_ZOOKEEPER_CONNECT"
        )
    controllers = {name.upper() for name in split_list(settings.get("controller.listener.names", ""))}
    kept = {name: text for name, text in settings.items() if name not in _KRAFT_ONLY}
    if "node.id" in settings:
        kept.setdefault("broker.id", settings["node.id"])
    for key, separator in (
        ("listeners", "://"),
        ("advertised.listeners", "://"),
        ("listener.security.protocol.map", ":"),
    ):
        if key in kept:
            entries = [
                entry for entry in split_list(kept[key]) if entry.partition(separator)[0].upper() not in controllers
            ]
            kept[key] = ",".join(entries)
    return kept


def _complete_listeners(settings: dict[str, str], host: str) -> None:
    """Add missing listeners: an advertised one listens at every interface; without any the broker is at port 9092 of `host`."""
    if "listeners" not in settings:
        advertised = settings.setdefault("advertised.listeners", f"PLAINTEXT://{host}:9092")
        settings["listeners"] = ",".join(
            re.sub(r"://.*:", "://0.0.0.0:", entry, count=1) for entry in split_list(advertised)
        )
    elif "advertised.listeners" not in settings:
        entries = split_list(settings["listeners"])
        settings["advertised.listeners"] = ",".join(
            re.sub(r"://(0\.0\.0\.0|\[::\]|):", f"://{host}:", entry, count=1) for entry in entries
        )


def _own_zookeeper() -> dict[str, str]:
    return _zookeeper_defaults() | {"clientPort": "2181", "tickTime": "1000"}


def _zookeeper_defaults() -> dict[str, str]:
    return {"dataDir": ZOOKEEPER_DATA, "dataLogDir": ZOOKEEPER_LOG, "maxClientCnxns": "0"}


def _zookeeper(environment: Mapping[str, str]) -> tuple[dict[str, str], int | None]:
    settings = _zookeeper_defaults() | {"clientPort": "2181"}
    for variable, text in environment.items():
        prefix, _, name = variable.partition("_")
        if (
            prefix == "ZOOKEEPER"
            and name
            and name not in _ZOOKEEPER_NO_SETTINGS
            and not re.fullmatch(_OF_KUBERNETES, name)
        ):
            settings[_DOTTED_ZOOKEEPER.get(name) or _camel_case(name)] = text
    members = [
        member for member in environment.get("ZOOKEEPER_SERVERS", "").replace(",", ";").split(";") if member.strip()
    ]
    if len(members) < 2:
        return settings, None
    settings |= {f"server.{number}": member.strip() for number, member in enumerate(members, 1)}
    settings.setdefault("initLimit", "10")
    settings.setdefault("syncLimit", "5")
    return settings, _server_id(environment.get("ZOOKEEPER_SERVER_ID", ""), len(members))


def _server_id(text: str, members: int) -> int:
    if text.isdecimal() and 1 <= int(text) <= members:
        return int(text)
    raise ConfigError(
        f"ZOOKEEPER_SERVER_ID={text} must be a number from 1 to {members}: which of ZOOKEEPER_SERVERS this container is"
    )


def _camel_case(name: str) -> str:
    first, *others = name.lower().split("_")
    return first + "".join(word.capitalize() for word in others)
