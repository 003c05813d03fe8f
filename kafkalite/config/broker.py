"""The settings of one broker process, read once at start.

Values come from a properties file and from `-X key=value` overrides. Where several keys say the same thing the finest
one that is set wins (log.retention.ms, then .minutes, then .hours; log.dirs, then log.dir; inter.broker.listener.name,
then security.inter.broker.protocol). Every problem is found before the broker does anything, and all are reported at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from kafkalite.config.broker_keys import BROKER_KEYS, BrokerSettings
from kafkalite.config.keys import ConfigError, Effect, InvalidValue, Key, split_list
from kafkalite.config.listeners import (
    DEFAULT_PROTOCOL_MAP,
    check_hosts_can_be_reached,
    check_ports_differ,
    listener_text,
    parse_connection_limits,
    parse_listeners,
    parse_protocol_map,
)
from kafkalite.config.live import Live
from kafkalite.config.properties import read_properties
from kafkalite.config.security_keys import MECHANISMS, is_of_listener, security_of
from kafkalite.config.topic import TOPIC_KEYS, TopicConfig
from kafkalite.errors import KafkaError
from kafkalite.suggestions import did_you_mean
from kafkalite.types import Endpoint

__all__ = [
    "BROKER_KEYS",
    "FORMAT_IS_FIXED",
    "BrokerConfig",
    "ConfigError",
    "LiveConfig",
    "load_broker_config",
    "topic_defaults_of",
    "warn_of_idle",
]

_CLEANER_BUFFER_MIN_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class BrokerConfig(BrokerSettings):
    """Every setting of a broker, typed and checked; made by `from_properties`.

    `originals` holds the texts as they were given, also of keys that are no setting of a broker, and
    `topic_defaults` what a topic without settings of its own has. There is no `repr`: it could show secrets.
    """

    listener_security_protocol_map: Mapping[str, str] = field(
        default_factory=lambda: DEFAULT_PROTOCOL_MAP,
        metadata={"key": BROKER_KEYS["listener.security.protocol.map"]},
    )
    originals: Mapping[str, str] = field(default_factory=dict)
    topic_defaults: TopicConfig = field(default_factory=TopicConfig)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], overrides: Mapping[str, str] | None = None) -> BrokerConfig:
        """Return the settings in `properties`, replaced by those in `overrides`.

        Raises ConfigError that names key, value and remedy of every problem. Of unknown keys only `warnings` tells.
        """
        originals = {name: text.strip() for name, text in (dict(properties) | dict(overrides or {})).items()}
        values, problems = _parse(originals)
        if not problems:
            values |= _resolve(values, originals, problems)
        if problems:
            raise ConfigError(*problems)
        config = cls(originals=MappingProxyType(originals), **values)
        if problems := list(_contradictions(config)):
            raise ConfigError(*problems)
        return config

    @property
    def inter_broker_listener(self) -> Endpoint:
        """Return the advertised listener through which brokers talk to each other."""
        return next(each for each in self.advertised_listeners if each.listener == self.inter_broker_listener_name)

    def warnings(self) -> Iterator[str]:
        """Yield a sentence about each setting that was given and has no effect; values may be secrets and are left out."""
        yield from warn_of_idle(self.originals, message_format_acts=self.topic_defaults.message_format_acts)


LiveConfig: TypeAlias = Live[BrokerConfig]
"""The settings that a running broker obeys now."""


OLDEST_PROTOCOL: Final = (1, 1)
"""The oldest release of which all requests between brokers are spoken."""

_FORMAT_IS_FIXED_FROM: Final = (3, 0)
_ZSTD_FROM: Final = (2, 1)
FORMAT_IS_FIXED: Final = "from an inter.broker.protocol.version of 3.0 on, records are stored in format 2 (KIP-724)"


def warn_of_idle(names: Iterable[str], *, message_format_acts: bool) -> Iterator[str]:
    """Yield a sentence about each of these settings that has no effect here, by name."""
    for name in sorted(names):
        key = BROKER_KEYS.get(name)
        if key is None and not is_of_listener(name):
            yield f"{name} is not known to a broker and has no effect{did_you_mean(name, BROKER_KEYS)}"
        elif key is not None and key.effect is Effect.NONE:
            yield f"{name} has no effect: {key.reason}"
        elif name == "log.message.format.version" and not message_format_acts:
            yield f"{name} has no effect: {FORMAT_IS_FIXED}"


def load_broker_config(path: Path | None, overrides: Mapping[str, str]) -> BrokerConfig:
    """Return the settings in the file at `path`, if any, which the option --config names, replaced by `overrides`. Raises ConfigError."""
    texts = read_properties(path, "--config") if path is not None else {}
    return BrokerConfig.from_properties(texts, overrides)


def topic_defaults_of(texts: Mapping[str, str]) -> TopicConfig:
    """Return what topics inherit from broker settings: for every topic key the first synonym that is set.

    Raises InvalidValue for a value that its key does not take, KafkaError INVALID_CONFIG for contradicting ones.
    """
    overrides = {}
    for name, key in TOPIC_KEYS.items():
        for synonym in key.synonyms:
            if (text := texts.get(synonym.name)) is not None:
                overrides[name] = _in_topic_unit(BROKER_KEYS[synonym.name], text, synonym.factor)
                break
    release = _release_of(texts.get("inter.broker.protocol.version", "3.0"))
    return TopicConfig.from_overrides(
        TopicConfig(message_format_acts=release < _FORMAT_IS_FIXED_FROM, may_store_zstd=release >= _ZSTD_FROM),
        overrides,
    )


def _release_of(protocol: str) -> tuple[int, ...]:
    """Return major and minor release of an inter.broker.protocol.version."""
    return tuple(map(int, protocol.split("-")[0].split(".")[:2]))


def _in_topic_unit(key: Key, text: str, factor: int) -> str:
    """Return `text` in the unit of the topic's key; negative numbers mean "without limit" in every unit."""
    value = key.parse(text)
    if factor != 1:
        return str(value * factor if value >= 0 else -1)
    return text


def _parse(originals: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, text in originals.items():
        if (key := BROKER_KEYS.get(name)) is not None:
            try:
                values[key.attribute] = key.parse(text)
            except InvalidValue as problem:
                problems.append(str(problem))
    return values, problems


def _resolve(values: dict[str, Any], originals: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    """Return the fields that are made of several settings, or parsed further than their plain text."""
    resolved: dict[str, Any] = {}

    def note(name: str, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except ValueError as problem:
            problems.append(f"Invalid value {originals.get(name)} for configuration {name}: {problem}")
            return None

    def find_text(name: str) -> str | None:
        return originals.get(name) or None

    dirs = find_text("log.dirs") or find_text("log.dir") or BROKER_KEYS["log.dir"].default
    resolved["log_dirs"] = tuple(split_list(dirs))
    map_text = find_text("listener.security.protocol.map")
    protocols = DEFAULT_PROTOCOL_MAP
    if map_text is not None:
        protocols = note("listener.security.protocol.map", lambda: parse_protocol_map(map_text)) or {}
    resolved["listener_security_protocol_map"] = protocols
    listeners_text = originals.get("listeners", BROKER_KEYS["listeners"].default)
    listeners = note("listeners", lambda: parse_listeners(listeners_text, protocols))
    resolved["listeners"] = resolved["advertised_listeners"] = listeners
    if (advertised_text := find_text("advertised.listeners")) is not None:
        resolved["advertised_listeners"] = note(
            "advertised.listeners", lambda: parse_listeners(advertised_text, protocols)
        )
    limits_text = values.get("max_connections_per_ip_overrides", "")
    resolved["max_connections_per_ip_overrides"] = parse_connection_limits(limits_text)
    resolved["inter_broker_listener_name"] = (
        find_text("inter.broker.listener.name") or values.get("security_inter_broker_protocol", "PLAINTEXT")
    ).upper()
    if (control_plane := find_text("control.plane.listener.name")) is not None:
        resolved["control_plane_listener_name"] = control_plane.upper()
    try:
        resolved["topic_defaults"] = topic_defaults_of(originals)
    except KafkaError as problem:  # every value by itself was read before: only two of them can contradict each other
        limits = "log.cleaner.min.compaction.lag.ms and log.cleaner.max.compaction.lag.ms"
        problems.append(f"{problem}; topics inherit these from {limits}")
    return resolved


def _contradictions(config: BrokerConfig) -> Iterator[str]:
    yield from _identity_problems(config)
    yield from _listener_problems(config)
    yield from _protocol_problems(config)
    yield from _bound_problems(config)


def _invalid(name: str, value: object, remedy: str) -> str:
    return f"Invalid value {value} for configuration {name}: {remedy}"


def _identity_problems(config: BrokerConfig) -> Iterator[str]:
    if not config.zookeeper_connect:
        yield "Missing required configuration zookeeper.connect: set it to the servers of ZooKeeper, such as localhost:2181"
    if config.broker_id_generation_enable:
        if config.broker_id > config.reserved_broker_max_id:
            yield _invalid(
                "broker.id",
                config.broker_id,
                f"it must be at most reserved.broker.max.id, which is {config.reserved_broker_max_id}; raise that or set "
                "broker.id.generation.enable=false",
            )
    elif config.broker_id < 0:
        yield _invalid("broker.id", config.broker_id, "set it to 0 or more, or allow broker.id.generation.enable")
    if not config.log_dirs:
        yield _invalid("log.dirs", config.originals.get("log.dirs"), "name at least one directory")
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        value = getattr(config, BROKER_KEYS[name].attribute)
        if value is not None and value != -1 and value < 1:
            yield _invalid(name, value, "it must be at least 1, or -1 for no limit")


def _protocol_problems(config: BrokerConfig) -> Iterator[str]:
    protocol = config.inter_broker_protocol_version
    if _release_of(protocol) < OLDEST_PROTOCOL:
        yield _invalid(
            "inter.broker.protocol.version",
            protocol,
            "this broker speaks 1.1 and newer; bring the brokers of the cluster to Apache Kafka 1.1 or newer first",
        )


def _listener_problems(config: BrokerConfig) -> Iterator[str]:
    for name, check, endpoints in (
        ("listeners", check_ports_differ, config.listeners),
        ("advertised.listeners", check_hosts_can_be_reached, config.advertised_listeners),
    ):
        try:
            check(endpoints)
        except ValueError as problem:
            yield _invalid(name, ",".join(map(listener_text, endpoints)), str(problem))
    for each in config.listeners:
        yield from _security_problems(config, each)
    names = {each.listener for each in config.listeners}
    advertised = {each.listener for each in config.advertised_listeners}
    if extra := sorted(advertised - names):
        yield _invalid(
            "advertised.listeners", ",".join(extra), f"listeners has only {', '.join(sorted(names))}; add it there"
        )
    inter_broker, control_plane = config.inter_broker_listener_name, config.control_plane_listener_name
    if "inter.broker.listener.name" in config.originals and "security.inter.broker.protocol" in config.originals:
        yield _invalid(
            "inter.broker.listener.name",
            inter_broker,
            "it excludes security.inter.broker.protocol; set only one of them",
        )
    if inter_broker not in advertised:
        yield _invalid(
            "inter.broker.listener.name",
            inter_broker,
            f"it must be an advertised listener; these are {', '.join(sorted(advertised))}",
        )
    if control_plane is not None and control_plane not in advertised:
        yield _invalid(
            "control.plane.listener.name",
            control_plane,
            f"it must be an advertised listener; these are {', '.join(sorted(advertised))}",
        )
    if control_plane is not None and control_plane == inter_broker:
        yield _invalid("control.plane.listener.name", control_plane, "it must differ from the inter-broker listener")


def _security_problems(config: BrokerConfig, endpoint: Endpoint) -> Iterator[str]:
    """Yield a sentence about each setting without which a listener cannot do what its protocol promises."""
    protocol, listener = endpoint.security_protocol, endpoint.listener
    try:
        settings = security_of(config.originals, listener)
        for mechanism in settings.sasl_enabled_mechanisms:
            security_of(config.originals, listener, mechanism)
    except InvalidValue as problem:
        yield f"listener {listener}: {problem}"
        return
    if protocol.endswith("SSL") and not (settings.ssl_keystore_location or settings.ssl_keystore_certificate_chain):
        yield _invalid(
            "ssl.keystore.location", None, f"listeners has {listener} with TLS; name its key store (PEM, PKCS12 or JKS)"
        )
    if protocol.startswith("SASL") and "GSSAPI" in settings.sasl_enabled_mechanisms:
        from kafkalite.security import kerberos  # with the event loop, which settings do without

        if not kerberos.is_available():
            yield _invalid(
                "sasl.enabled.mechanisms",
                ",".join(settings.sasl_enabled_mechanisms),
                f"GSSAPI needs a package: {kerberos.REMEDY}; or name others of {', '.join(MECHANISMS)} for {listener} in listeners",
            )
    inter_broker = settings.sasl_mechanism_inter_broker_protocol
    is_inter_broker = listener == config.inter_broker_listener_name
    if protocol.startswith("SASL") and is_inter_broker and inter_broker not in settings.sasl_enabled_mechanisms:
        yield _invalid(
            "sasl.mechanism.inter.broker.protocol",
            inter_broker,
            f"{listener} in listeners has only {', '.join(settings.sasl_enabled_mechanisms)}",
        )


def _bound_problems(config: BrokerConfig) -> Iterator[str]:
    for name, bound_name in (
        ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
        ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
        ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ):
        value, bound = (getattr(config, BROKER_KEYS[each].attribute) for each in (name, bound_name))
        if value > bound:
            yield _invalid(name, value, f"it must be at most {bound_name}, which is {bound}")
    if config.max_connections_per_ip == 0 and not config.max_connections_per_ip_overrides:
        yield _invalid("max.connections.per.ip", 0, "it may be 0 only beside max.connections.per.ip.overrides")
    if -1 < config.queued_max_request_bytes < config.socket_request_max_bytes or config.queued_max_request_bytes < -1:
        yield _invalid(
            "queued.max.request.bytes",
            config.queued_max_request_bytes,
            f"it must be -1 or at least socket.request.max.bytes, which is {config.socket_request_max_bytes}",
        )
    cleaner_threads = max(1, config.log_cleaner_threads)
    if config.log_cleaner_dedupe_buffer_size // cleaner_threads <= _CLEANER_BUFFER_MIN_BYTES:
        yield _invalid(
            "log.cleaner.dedupe.buffer.size",
            config.log_cleaner_dedupe_buffer_size,
            f"it must exceed {_CLEANER_BUFFER_MIN_BYTES} bytes for each of {cleaner_threads} log.cleaner.threads",
        )
    if 0 <= config.connections_max_idle_ms <= config.connection_failed_authentication_delay_ms:
        yield _invalid(
            "connection.failed.authentication.delay.ms",
            config.connection_failed_authentication_delay_ms,
            f"it must be below connections.max.idle.ms, which is {config.connections_max_idle_ms}",
        )
    if not -1 <= config.offsets_commit_required_acks <= config.offsets_topic_replication_factor:
        yield _invalid(
            "offsets.commit.required.acks",
            config.offsets_commit_required_acks,
            f"it must lie between -1 and offsets.topic.replication.factor, {config.offsets_topic_replication_factor}",
        )
