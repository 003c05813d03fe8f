"""Values with units, as people write them on command lines: `7d` for a key in ms, `64MiB` for one in bytes.

Files of settings have plain numbers, because Apache Kafka reads them too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kafkalite.config.errors import ConfigError

_MS: Final[Mapping[str, int]] = {
    "ms": 1,
    "s": 1000,
    "sec": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_BYTES: Final[Mapping[str, int]] = {
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "tb": 1000**4,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
_WITH_UNIT: Final = r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]+)"
_KEYS_IN: Final = {"ms": "ms", "seconds": "s", "minutes": "m", "hours": "h", "bytes": "b"}
"""The last word of a key in time or bytes, with its unit."""
_OTHER_KEYS_IN_BYTES: Final = ("bytes.per.second", "byte_rate", "throttled.rate", "buffer.memory", "buffer_memory")


def plain_value(key: str, text: str) -> str:
    """Return a value without its unit, as the number that the key takes: "604800000" for `retention.ms` and "7d".

    Values without a unit, and of keys that are neither times nor sizes, stay as they are. Raises ConfigError for a unit of the other kind,
    for K, M, G and T, which may be 1000 or 1024, and where no whole number comes out.
    """
    found = re.fullmatch(_WITH_UNIT, text.strip())
    unit = _unit_of(key)
    if found is None or unit is None:
        return text
    number, named = found[1], found[2].lower()
    units = _MS if unit in _MS else _BYTES
    if named not in units:
        if units is _BYTES and f"{named}b" in _BYTES:
            letter = named.upper()
            raise ConfigError(f"{key}={text}: write {number}{letter}iB (of 1024) or {number}{letter}B (of 1000)")
        raise ConfigError(f"{key}={text}: no such unit{remedy_for(key)}")
    from fractions import Fraction  # for few values only

    value = Fraction(number) * units[named] / units[unit]
    if value.denominator != 1:
        raise ConfigError(f"{key}={text} is {float(value):g}, and the setting takes a whole number")
    return str(value.numerator)


def remedy_for(key: str) -> str:
    """Return what a time or size may look like, to be appended to a message; empty for keys of other kinds."""
    unit = _unit_of(key)
    if unit is None:
        return ""
    if unit in _MS:
        return f"; give a number ({_name_of(unit)}), or one with ms, s, m, h, d or w, as in 7d"
    return "; give a number (bytes), or one with KiB, MiB, GiB, KB, MB or GB, as in 64MiB"


def _name_of(unit: str) -> str:
    return next(name for name, each in _KEYS_IN.items() if each == unit)


def _unit_of(key: str) -> str | None:
    if key.endswith(_OTHER_KEYS_IN_BYTES):
        return "b"
    return _KEYS_IN.get(re.split(r"[._-]", key)[-1])
