"""Broker settings: defaults, priorities, listeners, cross checks, messages."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from kafkalite.config.broker import BROKER_KEYS, BrokerConfig, load_broker_config
from kafkalite.config.keys import ConfigError
from kafkalite.security import kerberos
from kafkalite.types import Endpoint

MINIMAL = {"zookeeper.connect": "localhost:2181"}


def config(**more: str) -> BrokerConfig:
    return BrokerConfig.from_properties(MINIMAL | {name.replace("_", "."): text for name, text in more.items()})


def problems(**more: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config(**more)
    return str(caught.value)


def test_a_config_read_from_nothing_equals_the_defaults() -> None:
    read, made = config(), BrokerConfig(zookeeper_connect="localhost:2181", originals=MINIMAL)
    for item in dataclasses.fields(BrokerConfig):
        assert getattr(read, item.name) == getattr(made, item.name), item.name


def test_the_defaults_obey_their_rules_and_are_documented() -> None:
    for key in BROKER_KEYS.values():
        assert key.documentation, key.name
        if key.default is not None:
            assert key.parse(key.format(key.default) or "") == key.default, key.name


def test_values_are_typed_and_trimmed() -> None:
    read = config(broker_id=" 7 ", auto_create_topics_enable="FALSE", log_dirs="/a, /b,", broker_rack="r1")
    assert (read.broker_id, read.auto_create_topics_enable, read.log_dirs) == (7, False, ("/a", "/b"))
    assert read.broker_rack == "r1"


def test_log_dirs_wins_over_log_dir() -> None:
    assert config(log_dir="/one").log_dirs == ("/one",)
    assert config(log_dir="/one", log_dirs="/two").log_dirs == ("/two",)


def test_topics_inherit_from_the_broker() -> None:
    read = config(log_retention_minutes="1", message_max_bytes="5", log_roll_hours="1")
    assert read.topic_defaults.retention_ms == 60_000
    assert read.topic_defaults.max_message_bytes == read.message_max_bytes == 5
    assert read.topic_defaults.segment_ms == 3_600_000


def test_overrides_win_over_the_file() -> None:
    assert BrokerConfig.from_properties(MINIMAL | {"broker.id": "1"}, {"broker.id": "2"}).broker_id == 2
    assert load_broker_config(None, MINIMAL).zookeeper_connect == "localhost:2181"


def test_what_has_no_effect_is_warned_about_once_and_without_its_value() -> None:
    read = config(my_password="s3cret", num_io_threads="9", log_preallocate="true", num_partitions="2")
    assert list(read.warnings()) == [
        "log.preallocate has no effect: segments grow as they are written",
        "my.password is not known to a broker and has no effect",
        "num.io.threads has no effect: one event loop serves all connections and requests",
    ]
    assert read.originals["my.password"] == "s3cret"
    assert "s3cret" not in repr(read)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PLAINTEXT://:9092", [Endpoint("PLAINTEXT", "", 9092)]),
        ("plaintext://127.0.0.1:0", [Endpoint("PLAINTEXT", "127.0.0.1", 0)]),
        ("PLAINTEXT://[::1]:9092", [Endpoint("PLAINTEXT", "::1", 9092)]),
        ("PLAINTEXT://[fe80::1%eth0]:9092", [Endpoint("PLAINTEXT", "fe80::1%eth0", 9092)]),
        (
            " PLAINTEXT://a-b.example:1 , B://:2 ",
            [Endpoint("PLAINTEXT", "a-b.example", 1), Endpoint("B", "", 2)],
        ),
    ],
)
def test_listeners(text: str, expected: list[Endpoint]) -> None:
    read = config(listeners=text, listener_security_protocol_map="PLAINTEXT:PLAINTEXT,B:PLAINTEXT")
    assert list(read.listeners) == list(read.advertised_listeners) == expected


def test_named_listeners_with_a_protocol_map() -> None:
    read = config(
        listeners="INSIDE://:9092,OUTSIDE://0.0.0.0:9093",
        advertised_listeners="INSIDE://broker-1:9092,OUTSIDE://example.org:19093",
        listener_security_protocol_map="inside:plaintext,OUTSIDE:PLAINTEXT",
        inter_broker_listener_name="INSIDE",
    )
    assert read.inter_broker_listener == Endpoint("INSIDE", "broker-1", 9092)
    assert read.listeners[1] == Endpoint("OUTSIDE", "0.0.0.0", 9093)


def test_ipv4_and_ipv6_may_share_a_port() -> None:
    read = config(
        listeners="A://127.0.0.1:9092,B://[::1]:9092",
        listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT",
        inter_broker_listener_name="A",
    )
    assert len(read.listeners) == 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"listeners": ""}, "at least one listener"),
        ({"listeners": "PLAINTEXT://host"}, "NAME://host:port"),
        ({"listeners": "PLAINTEXT://::1:9092"}, "brackets"),
        ({"listeners": "PLAINTEXT://:70000"}, "65535"),
        ({"listeners": "INSIDE://:1"}, "listener.security.protocol.map"),
        ({"listeners": "PLAINTEXT://:1,plaintext://:2"}, "appears twice"),
        ({"listeners": "PLAINTEXT://:1,SSL://:1"}, "share port 1"),
        ({"listeners": "PLAINTEXT://:1,SSL://:2"}, "listeners has SSL with TLS; name its key store"),
        (
            {"listeners": "PLAINTEXT://:1,SASL_PLAINTEXT://:2"},
            "GSSAPI needs a package: pip install 'kafkalite[gssapi]'",
        ),
        (
            {
                "listeners": "A://:1",
                "listener_security_protocol_map": "A:SASL_PLAINTEXT",
                "inter_broker_listener_name": "A",
                "listener.name.a.sasl.enabled.mechanisms": "PLAIN",
            },
            "A in listeners has only PLAIN",
        ),
        ({"listener.name.plaintext.sasl.jaas.config": "none"}, "Must be one login module"),
        ({"zookeeper_ssl_crl_enable": "true"}, "set it to false"),
        ({"zookeeper_ssl_ocsp_enable": "true"}, "set it to false"),
        ({"authorizer_class_name": "org.example.Mine"}, "kafka.security.authorizer.AclAuthorizer"),
        ({"authorizer_zookeeper_url": "other:2181"}, "leave it out"),
        ({"super_users": "alice"}, "User:name"),
        *(
            ({"inter_broker_protocol_version": each}, "speaks 1.1 and newer")
            for each in ("0.10.2", "0.11.0-IV2", "1.0")
        ),
        ({"listeners": "PLAINTEXT://0.0.0.0:1"}, "set advertised.listeners"),
        ({"listeners": "PLAINTEXT://[::]:1"}, "set advertised.listeners"),
        ({"advertised_listeners": "SSL://a:1"}, "listeners has only PLAINTEXT"),
        ({"listener_security_protocol_map": "A:CLEARTEXT"}, "NAME:PROTOCOL"),
        ({"listener_security_protocol_map": "A:SSL,a:SSL"}, "appears twice"),
        ({"inter_broker_listener_name": "INSIDE"}, "must be an advertised listener"),
        (
            {"inter_broker_listener_name": "PLAINTEXT", "security_inter_broker_protocol": "PLAINTEXT"},
            "set only one of them",
        ),
        ({"control_plane_listener_name": "PLAINTEXT"}, "must differ"),
        ({"control_plane_listener_name": "C"}, "must be an advertised listener"),
        ({"broker_id": "1001"}, "reserved.broker.max.id"),
        ({"broker_id_generation_enable": "false"}, "broker.id"),
        ({"log_retention_ms": "0"}, "at least 1, or -1"),
        ({"log_retention_hours": "0"}, "at least 1, or -1"),
        ({"log_roll_ms": "0"}, "at least 1"),
        ({"replica_fetch_wait_max_ms": "30001"}, "replica.socket.timeout.ms"),
        ({"replica_lag_time_max_ms": "499"}, "replica.lag.time.max.ms, which is 499"),
        ({"queued_max_request_bytes": "5"}, "socket.request.max.bytes"),
        ({"log_cleaner_dedupe_buffer_size": "1048576"}, "must exceed 1048576"),
        ({"connections_max_idle_ms": "100"}, "below connections.max.idle.ms"),
        ({"offsets_commit_required_acks": "4"}, "offsets.topic.replication.factor"),
        ({"zookeeper_max_in_flight_requests": "0"}, "at least 1"),
        ({"num_partitions": "many"}, "Invalid value many for configuration num.partitions: Not a number of type INT"),
        ({"log_dirs": " , "}, "at least one directory"),
        ({"log_cleaner_min_compaction_lag_ms": "9", "log_cleaner_max_compaction_lag_ms": "1"}, "at least"),
    ],
)
def test_what_cannot_work_is_refused_with_a_remedy(
    given: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kerberos, "is_available", lambda: False)
    message = problems(**given)
    assert expected in message
    assert any(name.replace("_", ".") in message for name in given)


def test_zookeeper_is_required() -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        BrokerConfig.from_properties({})


def test_all_problems_are_told_at_once() -> None:
    assert problems(num_partitions="0", num_io_threads="x").count("Invalid value") == 2


def test_the_settings_load_without_the_event_loop_or_zookeeper() -> None:
    script = "import sys, kafkalite.config.dynamic; print(sorted({'asyncio', 'kazoo', 'kio'} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert answer.stdout.strip() == "[]"
