"""Values with units, as people write them on command lines."""

from __future__ import annotations

import re

import pytest

from kafkalite.config.broker_keys import BROKER_KEYS
from kafkalite.config.keys import ConfigError, ConfigType
from kafkalite.config.properties import parse_overrides
from kafkalite.config.topic import TOPIC_KEYS
from kafkalite.config.units import plain_value, remedy_for


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("retention.ms", "7d", "604800000"),
        ("retention.ms", "1.5h", "5400000"),
        ("retention.ms", "2 w", "1209600000"),
        ("retention.ms", "30min", "1800000"),
        ("retention.ms", "5S", "5000"),
        ("retention.ms", "250ms", "250"),
        ("retention.ms", "60000", "60000"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "soon", "soon"),
        ("log.retention.hours", "7d", "168"),
        ("offsets.retention.minutes", "1w", "10080"),
        ("quota.window.size.seconds", "2m", "120"),
        ("request_timeout_ms", "5s", "5000"),
        ("segment.bytes", "64MiB", "67108864"),
        ("segment.bytes", "64MB", "64000000"),
        ("segment.bytes", "0.5KiB", "512"),
        ("max.message.bytes", "1mib", "1048576"),
        ("producer_byte_rate", "1MiB", "1048576"),
        ("leader.replication.throttled.rate", "10MB", "10000000"),
        ("buffer.memory", "64MiB", "67108864"),
        ("min.insync.replicas", "2", "2"),
        ("min.insync.replicas", "2d", "2d"),
        ("message.format.version", "3.0", "3.0"),
        ("compression.type", "gzip", "gzip"),
    ],
)
def test_a_unit_becomes_the_number_that_the_key_takes(key: str, text: str, value: str) -> None:
    assert plain_value(key, text) == value


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        ("segment.bytes", "64M", "segment.bytes=64M: write 64MiB (of 1024) or 64MB (of 1000)"),
        ("segment.bytes", "1g", "segment.bytes=1g: write 1GiB (of 1024) or 1GB (of 1000)"),
        ("segment.bytes", "7d", "segment.bytes=7d: no such unit; give a number (bytes), or one with KiB"),
        ("retention.ms", "64MiB", "no such unit; give a number (ms), or one with ms, s, m, h, d or w, as in 7d"),
        ("retention.ms", "1y", "retention.ms=1y: no such unit"),
        ("log.retention.hours", "90m", "log.retention.hours=90m is 1.5, and the setting takes a whole number"),
        ("segment.bytes", "0.3B", "takes a whole number"),
    ],
)
def test_what_is_not_clear_is_refused_with_what_to_write(key: str, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        plain_value(key, text)


def test_times_and_sizes_are_known_by_their_names() -> None:
    keys = {**BROKER_KEYS, **TOPIC_KEYS}
    numbers = [name for name, key in keys.items() if key.type in (ConfigType.INT, ConfigType.LONG)]
    telling = [name for name in numbers if re.search(r"\b(ms|bytes|hours|minutes|seconds)\b", name)]
    assert len(telling) > 60
    assert [name for name in telling if not remedy_for(name)] == []
    others = [
        name for name, key in keys.items() if key.type in (ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST)
    ]
    assert [name for name in others if remedy_for(name)] == []


def test_overrides_on_a_command_line_have_units() -> None:
    assert parse_overrides(["log.retention.ms=1d", "log.dirs=/7d"]) == {
        "log.retention.ms": "86400000",
        "log.dirs": "/7d",
    }
    with pytest.raises(ConfigError, match="write 1GiB"):
        parse_overrides(["log.segment.bytes=1G"])
