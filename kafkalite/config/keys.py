"""Settings: their types, defaults, rules and documentation, and how their texts are read and written.

A table of settings is a frozen dataclass whose fields are made by `declare`. The field `retention_ms` is the key
`retention.ms`; dataclass default, validation and the answers of DescribeConfigs all come from that one declaration.
Texts are read as Kafka reads them: trimmed, booleans without regard to case, lists separated by commas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from kafkalite.config.errors import ConfigError as ConfigError
from kafkalite.config.errors import InvalidValue as InvalidValue

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
HIDDEN: Final = "[hidden]"
AS_DECLARED: Final = object()

# Patterns are compiled at their first use, which `re` remembers: a command that reads no settings starts faster.
_WHOLE_NUMBER: Final = r"[+-]?[0-9]+"
_DECIMAL_NUMBER: Final = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"


class ConfigType(IntEnum):
    """Types with their ids in DescribeConfigs (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value comes from, with the ids of DescribeConfigs (KIP-226)."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


class Effect(Enum):
    """When a value that is set acts."""

    AT_ONCE = "at once"
    AT_RESTART = "at restart"
    NONE = "none"
    """The key is taken because Kafka's files and tools have it; who sets it is warned."""
    REFUSED = "refused"
    """Only the default is taken, because it would be dangerous to go on without the effect of another value."""


class Refusal(NamedTuple):
    """The value that is not taken, which may be one item of a list, and what Kafka says of it."""

    value: Any
    text: str


Rule: TypeAlias = Callable[[Any], Refusal | None]
"""Returns None for a value that is accepted, among those of the right type."""


def rule(text: str, accepts: Callable[[Any], bool]) -> Rule:
    """Return a rule that refuses what is not accepted, with `text`."""
    return lambda value: None if accepts(value) else Refusal(value, text)


def readable(text: str, read: Callable[[Any], object]) -> Rule:
    """Return a rule that refuses, with `text`, what `read` raises ValueError for."""

    def accepts(value: Any) -> bool:
        try:
            read(value)
        except ValueError:
            return False
        return True

    return rule(text, accepts)


ANYTHING: Final[Rule] = lambda value: None  # noqa: E731  (a rule like those that the functions below make)


def at_least(minimum: int | float) -> Rule:
    return rule(f"Value must be at least {minimum}", lambda value: bool(value >= minimum))


def between(minimum: int | float, maximum: int | float) -> Rule:
    not_below = at_least(minimum)
    not_above = rule(f"Value must be no more than {maximum}", lambda value: bool(value <= maximum))
    return lambda value: not_below(value) or not_above(value)


def one_of(*names: str) -> Rule:
    return rule(f"String must be one of: {', '.join(names)}", lambda value: value in names)


def list_of(*names: str) -> Rule:
    of_each = one_of(*names)
    return lambda values: next((refusal for value in values if (refusal := of_each(value)) is not None), None)


def matching(pattern: str, text: str) -> Rule:
    return rule(text, lambda value: re.fullmatch(pattern, value) is not None)


@dataclass(frozen=True, slots=True)
class Synonym:
    """Another key that gives the value too when the first is absent, in a unit `factor` times as large."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True)
class Key:
    """One setting. `synonyms` are in falling priority; a default of None means "not set" and is shown as null.

    `dynamic` says whether Kafka lets it be altered while a broker runs (KIP-226), `effect` when it acts here; `reason` why
    it does not, where it does not. What is dynamic acts at once, but for what only a start reads and what has no effect.
    """

    name: str
    type: ConfigType
    default: Any
    rule: Rule = ANYTHING
    synonyms: tuple[Synonym, ...] = ()
    documentation: str = ""
    dynamic: bool = False
    effect: Effect = Effect.AT_RESTART
    reason: str = ""

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    @property
    def full_documentation(self) -> str:
        """Return the documentation, with what a value does not do."""
        return (
            f"{self.documentation} Effect: {self.effect.value}; {self.reason}." if self.reason else self.documentation
        )

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> Any:
        """Return the typed value of `text`. Raises InvalidValue when it has another type or breaks the rule."""
        value = _READERS[self.type](self, text.strip())
        return self.check(value)

    def check(self, value: Any) -> Any:
        """Return the value itself. Raises InvalidValue when it breaks the rule."""
        if (refusal := self.rule(value)) is not None:
            raise InvalidValue(self.name, self.format_hidden(refusal.value), refusal.text)
        return value

    def format(self, value: Any) -> str | None:
        """Return the text that `parse` reads back; None stays None."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(str(item) for item in value)
        if isinstance(value, float):
            return repr(value).replace("e+", "E").replace("e", "E")
        return str(value)

    def format_hidden(self, value: Any) -> str:
        """Return the text for messages and logs: secrets are replaced."""
        return HIDDEN if self.sensitive else str(self.format(value))

    def refuse(self, text: str, needed: str) -> InvalidValue:
        return InvalidValue(self.name, HIDDEN if self.sensitive else text, needed)


def declare(
    type: ConfigType,
    default: Any,
    documentation: str,
    rule: Rule = ANYTHING,
    *,
    synonyms: tuple[Synonym, ...] = (),
    dynamic: bool = False,
    effect: Effect | None = None,
    reason: str = "",
    resolved: Any = AS_DECLARED,
) -> Any:
    """Return a dataclass field that is also a setting; its name with dots for underscores is the key.

    `effect` is at once for what is dynamic, at restart for the rest, and none where only a `reason` is given.

    `resolved` is the field's default where the field holds something made of the setting (and of others) rather than
    its plain value.
    """
    if effect is None:
        effect = Effect.NONE if reason else Effect.AT_ONCE if dynamic else Effect.AT_RESTART
    declaration = Key("", type, default, rule, synonyms, documentation, dynamic, effect, reason)
    return field(default=default if resolved is AS_DECLARED else resolved, metadata={"key": declaration})


def keys_of(table: Any) -> Mapping[str, Key]:
    """Return the settings that a dataclass declares, by name, in order of declaration."""
    keys = {}
    for item in fields(table):
        if "key" in item.metadata:
            name = item.name.replace("_", ".")
            keys[name] = replace(item.metadata["key"], name=name)
    return MappingProxyType(keys)


def split_list(text: str) -> list[str]:
    """Return the items between commas, trimmed, without empty ones."""
    return [item for part in text.split(",") if (item := part.strip())]


def _read_boolean(key: Key, text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise key.refuse(text, "Expected value to be either true or false")
    return lowered == "true"


def _whole_number(bits: int) -> Callable[[Key, str], int]:
    limit = 1 << (bits - 1)

    def read(key: Key, text: str) -> int:
        if re.fullmatch(_WHOLE_NUMBER, text) is None or not -limit <= (number := int(text)) < limit:
            raise key.refuse(text, f"Not a number of type {key.type.name}")
        return number

    return read


def _read_double(key: Key, text: str) -> float:
    if re.fullmatch(_DECIMAL_NUMBER, text) is None:
        raise key.refuse(text, f"Not a number of type {key.type.name}")
    return float(text)


def _read_list(key: Key, text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",")) if text else ()


def _read_text(key: Key, text: str) -> str:
    return text


_READERS: Final[Mapping[ConfigType, Callable[[Key, str], Any]]] = {
    ConfigType.BOOLEAN: _read_boolean,
    ConfigType.STRING: _read_text,
    ConfigType.SHORT: _whole_number(16),
    ConfigType.INT: _whole_number(32),
    ConfigType.LONG: _whole_number(64),
    ConfigType.DOUBLE: _read_double,
    ConfigType.LIST: _read_list,
    ConfigType.CLASS: _read_text,
    ConfigType.PASSWORD: _read_text,
}
