"""Settings that change while brokers run: which of several sources wins, what DescribeConfigs says, what may be altered.

A broker setting comes from `/config/brokers/<id>`, else `/config/brokers/<default>`, else the broker's own file, else
Kafka's default (KIP-226). A topic setting comes from the topic's own overrides, else from its broker synonyms. This
module is pure: who reads the znodes passes their content in as mappings of key to text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

from kafkalite.config.broker import BROKER_KEYS, BrokerConfig, ConfigError, topic_defaults_of
from kafkalite.config.keys import ConfigSource, ConfigType, InvalidValue, Key, split_list
from kafkalite.config.security_keys import SECURITY_KEYS
from kafkalite.config.topic import TOPIC_KEYS, TopicConfig
from kafkalite.errors import ErrorCode, KafkaError

__all__ = [
    "AlterOperation",
    "BrokerSources",
    "ConfigEntry",
    "ConfigSynonym",
    "Operation",
    "apply_operations",
    "check_broker_overrides",
    "describe_broker",
    "describe_cluster_default",
    "describe_topic",
]

_PER_BROKER_ONLY: Final = frozenset({"listeners", "advertised.listeners", "listener.security.protocol.map"})
"""Dynamic keys that make no sense for all brokers at once."""

_LISTED_WHEN_SET: Final = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Keys that Kafka has no default for and does not mention while they are not set."""

PER_LISTENER_ONLY: Final = frozenset(name for name in SECURITY_KEYS if name.startswith(("ssl.", "sasl.")))
"""Keys that change while the broker runs only as those of one listener: `listener.name.<listener>.ssl...`."""


@dataclass(frozen=True, slots=True)
class BrokerSources:
    """The texts of one broker's settings, source by source; secrets among them are as they were given."""

    static: Mapping[str, str] = field(default_factory=dict)
    cluster_default: Mapping[str, str] = field(default_factory=dict)
    per_broker: Mapping[str, str] = field(default_factory=dict)

    def in_priority(self) -> Iterator[tuple[ConfigSource, Mapping[str, str]]]:
        yield ConfigSource.DYNAMIC_BROKER, self.per_broker
        yield ConfigSource.DYNAMIC_DEFAULT_BROKER, self.cluster_default
        yield ConfigSource.STATIC_BROKER, self.static

    def merge(self) -> dict[str, str]:
        """Return every given key with the text that counts."""
        return dict(self.static) | dict(self.cluster_default) | dict(self.per_broker)

    def effective(self) -> dict[str, str]:
        """Return the settings that a running broker obeys, for `BrokerConfig.from_properties`.

        Keys that need a restart are the file's, whatever somebody wrote into a znode past a broker, and so are those of
        the cluster's default that make sense for one broker only.
        """
        default = {name: text for name, text in self.cluster_default.items() if name not in _PER_BROKER_ONLY}
        overrides = default | dict(self.per_broker)
        return dict(self.static) | {
            name: text for name, text in overrides.items() if (key := BROKER_KEYS.get(name)) is None or key.dynamic
        }

    def topic_defaults(self) -> TopicConfig:
        """Return what topics inherit now. Raises InvalidValue, or KafkaError INVALID_CONFIG for contradicting values."""
        return topic_defaults_of(self.merge())


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One source that could give the value, in the order of their priority."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting as DescribeConfigs tells it; `value` is None for a secret and for what is not set."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    read_only: bool
    sensitive: bool
    documentation: str
    synonyms: tuple[ConfigSynonym, ...]


def describe_topic(
    sources: BrokerSources, overrides: Mapping[str, str], names: AbstractSet[str] | None = None
) -> list[ConfigEntry]:
    """Return the settings of a topic whose own ones are `overrides`; of those in `names` when given, unknown ones left out."""
    return [_topic_entry(key, sources, overrides) for name, key in TOPIC_KEYS.items() if names is None or name in names]


def describe_broker(sources: BrokerSources, names: AbstractSet[str] | None = None) -> list[ConfigEntry]:
    """Return the settings of a broker; unknown keys that it was given are listed last, without their values."""
    given = sources.merge()
    entries = [
        _broker_entry(key, sources)
        for name, key in BROKER_KEYS.items()
        if (names is None or name in names) and (name not in _LISTED_WHEN_SET or name in given)
    ]
    for name in sorted(given):
        if name not in BROKER_KEYS and (names is None or name in names):
            entries.append(_broker_entry(Key(name, ConfigType.UNKNOWN, None), sources))
    return entries


def describe_cluster_default(
    cluster_default: Mapping[str, str], names: AbstractSet[str] | None = None
) -> list[ConfigEntry]:
    """Return the settings that are set for all brokers at once; nothing else has a value there."""
    sources = BrokerSources(cluster_default=cluster_default)
    return [
        _broker_entry(BROKER_KEYS.get(name) or Key(name, ConfigType.UNKNOWN, None), sources)
        for name in sorted(cluster_default)
        if names is None or name in names
    ]


def check_broker_overrides(sources: BrokerSources, overrides: Mapping[str, str], *, per_broker: bool) -> None:
    """Refuse what must not replace `sources.per_broker` (`per_broker`) or `sources.cluster_default`.

    Raises KafkaError INVALID_REQUEST, in Kafka's words, for keys that need a restart or belong to one broker or
    listener, and for values that their keys do not take. Keys of no setting are let through, as Kafka does for plug-ins.
    """
    _refuse_keys(
        (name for name in overrides if name in BROKER_KEYS and not BROKER_KEYS[name].dynamic),
        "Cannot update these configs dynamically",
    )
    _refuse_keys(
        PER_LISTENER_ONLY & overrides.keys(),
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )
    try:
        for name, text in overrides.items():
            if (key := BROKER_KEYS.get(name)) is not None:
                key.parse(text)
    except InvalidValue as problem:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(problem)) from problem
    if not per_broker:
        _refuse_keys(
            _PER_BROKER_ONLY & overrides.keys(),
            "Cannot update these configs at default cluster level, broker id must be specified",
        )
    _check_together(sources, overrides, per_broker=per_broker)


def _refuse_keys(names: Iterable[str], reason: str) -> None:
    if refused := sorted(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{reason}: Set({', '.join(refused)})")


def _check_together(sources: BrokerSources, overrides: Mapping[str, str], *, per_broker: bool) -> None:
    """Refuse overrides that contradict other settings of the broker.

    A default of all brokers is judged as a broker without overrides of its own sees it, so that it does not depend on
    the broker that was asked.
    """
    inherited = replace(sources, per_broker={})
    before = sources if per_broker else inherited
    after = replace(sources, per_broker=overrides) if per_broker else replace(inherited, cluster_default=overrides)
    try:
        for name, complain in _RESIZED.items():
            complain(name, int(_effective(before, name)), int(_effective(after, name)))
        after.topic_defaults()
        BrokerConfig.from_properties({"zookeeper.connect": "any"} | after.effective())
    except (InvalidValue, KafkaError, ConfigError) as problem:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value org.apache.kafka.common.config.ConfigException: {problem} "
            "for configuration Invalid dynamic configuration",
        ) from problem


def _effective(sources: BrokerSources, name: str) -> Any:
    text = sources.merge().get(name)
    return BROKER_KEYS[name].default if text is None else BROKER_KEYS[name].parse(text)


def _check_cleaner_threads(name: str, current: int, wanted: int) -> None:
    said = "Log cleaner threads"
    if wanted < 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{said} should be at least 1")
    if wanted < current // 2:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{said} cannot be reduced to less than half the current value {current}"
        )
    if wanted > current * 2:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{said} cannot be increased to more than double the current value {current}"
        )


def _check_pool(name: str, current: int, wanted: int) -> None:
    said = f"Dynamic thread count update validation failed for {name}={wanted}, value should"
    if wanted < current // 2:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{said} be at least half the current value {current}")
    if wanted > current * 2:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{said} not be greater than double the current value {current}")


_RESIZED: Final[Mapping[str, Callable[[str, int, int], None]]] = {
    "log.cleaner.threads": _check_cleaner_threads,
    "num.io.threads": _check_pool,
    "num.network.threads": _check_pool,
    "num.replica.fetchers": _check_pool,
    "num.recovery.threads.per.data.dir": _check_pool,
    "background.threads": _check_pool,
}
"""Numbers that a running broker changes by half or double at most (KIP-226)."""


class AlterOperation(IntEnum):
    """Operations of IncrementalAlterConfigs on one key, with their ids (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    operation: int
    value: str | None = None


def apply_operations(
    current: Mapping[str, str], operations: Collection[Operation], keys: Mapping[str, Key]
) -> dict[str, str]:
    """Return the overrides after IncrementalAlterConfigs; `keys` is TOPIC_KEYS or BROKER_KEYS. Values are not checked here.

    Raises KafkaError INVALID_REQUEST for a key named twice, an unknown operation or a missing value, INVALID_CONFIG when
    something is added to or taken from what is no list.
    """
    counts = Counter(each.name for each in operations)
    if repeated := sorted(name for name, count in counts.items() if count > 1):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys : {','.join(repeated)}")
    result = dict(current)
    for each in operations:
        try:
            operation = AlterOperation(each.operation)
        except ValueError as problem:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unknown operation {each.operation} for {each.name}; use 0 to 3"
            ) from problem
        if operation is AlterOperation.DELETE:
            result.pop(each.name, None)
            continue
        if each.value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {each.name}")
        if operation is AlterOperation.SET:
            result[each.name] = each.value
        else:
            result[each.name] = _change_list(result.get(each.name), each, operation, keys)
    return result


def _change_list(current: str | None, each: Operation, operation: AlterOperation, keys: Mapping[str, Key]) -> str:
    key = keys.get(each.name)
    if key is None or key.type is not ConfigType.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Config value {operation.name.lower()} is not allowed for config key: {each.name}",
        )
    if current is None:
        current = key.format(key.default) or ""
    old = split_list(current)
    given = split_list(each.value or "")
    if operation is AlterOperation.APPEND:
        known = frozenset(old)
        return ",".join(old + [item for item in dict.fromkeys(given) if item not in known])
    removed = frozenset(given)
    return ",".join(item for item in old if item not in removed)


def _topic_entry(key: Key, sources: BrokerSources, overrides: Mapping[str, str]) -> ConfigEntry:
    synonyms = list(_broker_synonyms(key, sources))
    if (text := overrides.get(key.name)) is not None:
        synonyms.insert(0, ConfigSynonym(key.name, text, ConfigSource.TOPIC))
        value = key.format(key.parse(text))
    else:
        value = key.format(_inherit_value(key, sources))
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return ConfigEntry(key.name, value, source, key.type, False, key.sensitive, key.full_documentation, tuple(synonyms))


def _inherit_value(key: Key, sources: BrokerSources) -> object:
    """Return the value of a topic key by the broker's settings, whichever unit they use."""
    merged = sources.merge()
    for synonym in key.synonyms:
        if (text := merged.get(synonym.name)) is not None:
            value = BROKER_KEYS[synonym.name].parse(text)
            return value * synonym.factor if synonym.factor != 1 and value >= 0 else value
    return key.default


def _broker_synonyms(key: Key, sources: BrokerSources) -> Iterator[ConfigSynonym]:
    """Yield the sources of the first synonym only, as Apache Kafka does: coarser units count but are not reported."""
    for synonym in key.synonyms[:1]:
        yield from _synonyms(BROKER_KEYS[synonym.name], sources)


def _synonyms(key: Key, sources: BrokerSources) -> Iterator[ConfigSynonym]:
    """Yield the value of a broker setting in each source, the nearest source first."""
    for source, texts in sources.in_priority():
        if (text := texts.get(key.name)) is not None:
            yield ConfigSynonym(key.name, text, source)
    if key.default is not None:
        yield ConfigSynonym(key.name, key.format(key.default), ConfigSource.DEFAULT)


def _broker_entry(key: Key, sources: BrokerSources) -> ConfigEntry:
    sensitive = key.sensitive or key.type is ConfigType.UNKNOWN
    synonyms = list(_synonyms(key, sources))
    if sensitive:
        synonyms = [ConfigSynonym(each.name, None, each.source) for each in synonyms]
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    value = synonyms[0].value if synonyms else None
    return ConfigEntry(
        key.name, value, source, key.type, not key.dynamic, sensitive, key.full_documentation, tuple(synonyms)
    )
