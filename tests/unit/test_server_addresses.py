"""Addresses of servers, as they are given and as they are shown."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from kafkalite.client import SyncAdmin
from kafkalite.net.connection import Connection
from kafkalite.server_addresses import address_text, parse_servers
from tests.unit.legacy.test_start import broker as broker  # a fixture
from tests.unit.test_standard_streams import call


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:1", [("a", 1)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        (["a:1", "b:2"], [("a", 1), ("b", 2)]),
        ("a", [("a", 9092)]),
        ("[::1]:5", [("::1", 5)]),
        ("[::1]", [("::1", 9092)]),
        ("PLAINTEXT://a:1", [("a", 1)]),
        ("SASL_SSL://a:1,SSL://b:2", [("a", 1), ("b", 2)]),
        ("MY_LISTENER-1.x://a:1", [("a", 1)]),
        ("plaintext://a", [("a", 9092)]),
        ("PLAINTEXT://[::1]:5", [("::1", 5)]),
        # As Java's clients read it: the last number is the port.
        ("::1:5", [("::1", 5)]),
        ("fe80::1%eth0:5", [("fe80::1%eth0", 5)]),
        ("[fe80::1%eth0]:5", [("fe80::1%eth0", 5)]),
        ("my_host.example:5", [("my_host.example", 5)]),
    ],
)
def test_addresses(text: Any, addresses: list[tuple[str, int]]) -> None:
    assert parse_servers(text) == addresses


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no bootstrap server given"),
        (",", "no bootstrap server given"),
        ("a:b", "'a:b' is not host:port"),
        ("a:0", "'a:0' is not host:port"),
        ("a:70000", "is not host:port"),
        ("a:²", "is not host:port"),
        (":1", "is not host:port"),
        ("PLAINTEXT://", "'PLAINTEXT://' is not host:port"),
        ("PLAINTEXT://:9092", "is not host:port"),
        ("a:1/path", "is not host:port"),
        ("a:1:2", "is not host:port"),
        ("2001:db8::1", r"an IPv6 address stands in brackets: \[2001:db8::1\]:9092"),
        ("1:2:3:4:5:6:7:8", r"an IPv6 address stands in brackets: \[1:2:3:4:5:6:7:8\]:9092"),
        ("[::1", "is not host:port"),
        ("[a]:1", "no IPv6 address between its brackets"),
    ],
)
def test_addresses_that_cannot_be(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_servers(text)


def test_addresses_of_ipv6_are_shown_in_brackets() -> None:
    assert [address_text("::1", 5), address_text("a", 5)] == ["[::1]:5", "a:5"]


def test_a_broker_out_of_reach_is_named_as_it_can_be_given() -> None:
    async def connect(port: int) -> None:
        with pytest.raises(ConnectionError, match=rf"no connection to \[::1\]:{port}"):
            await Connection.open("::1", port, timeout_s=5)

    asyncio.run(connect(1))


COMMANDS = [
    ["-m", "kafkalite", "topic", "list", "-b", "BROKER"],
    ["-m", "kafkalite", "topic", "list", "-X", "bootstrap.servers=BROKER"],
    call("kafkalite.legacy.topics.tool:main", "--list", "--bootstrap-server", "BROKER"),
    call("kafkalite.legacy.consumer_groups.tool:main", "--list", "--bootstrap-server", "BROKER"),
    ["-m", "kafkalite.cli.image", "kafka-ready", "0", "5", "-b", "BROKER"],
]


@pytest.mark.parametrize("scheme", ["PLAINTEXT://", "SASL_SSL://", "OUTSIDE://"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[2:4])[-60:])
def test_a_scheme_is_ignored_as_javas_clients_do(scheme: str, command: Sequence[str], broker: str) -> None:
    words = [sys.executable, *(word.replace("BROKER", scheme + broker) for word in command)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_scheme_is_ignored_in_the_environment(broker: str) -> None:
    environment = {**os.environ, "KAFKALITE_BOOTSTRAP_SERVERS": f"PLAINTEXT://{broker}"}
    command = [sys.executable, "-m", "kafkalite", "topic", "list"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_scheme_is_ignored_by_clients(broker: str) -> None:
    with SyncAdmin(bootstrap_servers=[f"PLAINTEXT://{broker}"]) as admin:
        assert admin.describe_topics() == []
