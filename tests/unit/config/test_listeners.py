"""Addresses without a listener's name, as the status page has one."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BrokerConfig, ConfigError
from kafkalite.config.listeners import split_host_port

BASE = {"zookeeper.connect": "localhost:2181", "broker.id": "1"}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("localhost:9404", ("localhost", 9404)),
        (":9404", ("", 9404)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("[::1]:65535", ("::1", 65535)),
        ("[fe80::1%eth0]:80", ("fe80::1%eth0", 80)),
    ],
)
def test_host_and_port(text: str, parts: tuple[str, int]) -> None:
    assert split_host_port(text) == parts
    assert BrokerConfig.from_properties(BASE, {"kafkalite.http.listener": text}).kafkalite_http_listener == text


@pytest.mark.parametrize(
    "text", ["9404", "localhost", "localhost:", "::1:9404", "http://h:1", "h:65536", "h:-1", "a b:1"]
)
def test_what_is_none_stops_the_broker(text: str) -> None:
    with pytest.raises(ConfigError, match=r"kafkalite\.http\.listener: Must be host:port, an IPv6 host in brackets"):
        BrokerConfig.from_properties(BASE, {"kafkalite.http.listener": text})


def test_there_is_no_status_page_unasked() -> None:
    assert BrokerConfig.from_properties(BASE).kafkalite_http_listener is None
