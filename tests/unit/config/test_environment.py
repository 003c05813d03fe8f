"""Settings from the variables of a container."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.environment import broker_settings, container_settings
from kafkalite.config.keys import ConfigError

ZOOKEEPER = {"KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181"}

TESTCONTAINERS = {
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_BROKER_ID": "1",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:32768,BROKER://172.17.0.2:9092",
}


def broker(environment: dict[str, str], hostname: str = "box") -> dict[str, str]:
    settings = container_settings(environment, hostname).broker
    assert settings is not None
    BrokerConfig.from_properties(settings)  # a broker takes them
    return settings


def zookeeper(environment: dict[str, str]) -> dict[str, str]:
    settings = container_settings(environment, "box")
    assert settings.broker is None and settings.zookeeper is not None
    return settings.zookeeper


def test_variables_become_keys() -> None:
    variables = {
        "KAFKA_LOG_RETENTION_MS": "1000",
        "KAFKA_CONFLUENT__A___B": "x",
        "KAFKALITE_BOOTSTRAP_SERVERS": "h:1",
        "KAFKA_": "",
        "PATH": "/bin",
    }
    assert broker_settings(variables) == {"log.retention.ms": "1000", "confluent_a-b": "x"}


@pytest.mark.parametrize(
    "variable",
    [
        *("KAFKA_OPTS", "KAFKA_HEAP_OPTS", "KAFKA_JMX_PORT", "KAFKA_LOG4J_ROOT_LOGLEVEL"),
        *("KAFKA_PORT", "KAFKA_SERVICE_HOST", "KAFKA_SERVICE_PORT_CLIENTS", "KAFKA_PORT_9092_TCP_ADDR"),
    ],
)
def test_what_is_for_scripts_or_comes_from_kubernetes_is_no_setting(variable: str) -> None:
    assert broker_settings({variable: "tcp://10.0.0.1:9092"}) == {}


def test_what_testcontainers_gives_is_kept_as_it_is() -> None:
    settings = broker(TESTCONTAINERS)
    assert settings["advertised.listeners"] == TESTCONTAINERS["KAFKA_ADVERTISED_LISTENERS"]
    assert settings["listeners"] == TESTCONTAINERS["KAFKA_LISTENERS"]
    assert settings["log.dirs"] == "/var/lib/kafka/data"
    assert container_settings(TESTCONTAINERS, "box").zookeeper is None


def test_listeners_follow_from_what_is_advertised() -> None:
    given = ZOOKEEPER | {
        "KAFKA_ADVERTISED_LISTENERS": "INSIDE://kafka:29092, OUTSIDE://[::1]:9092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
    }
    assert broker(given)["listeners"] == "INSIDE://0.0.0.0:29092,OUTSIDE://0.0.0.0:9092"


def test_what_listens_everywhere_is_advertised_by_host_name() -> None:
    settings = broker(ZOOKEEPER | {"KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092"})
    assert settings["advertised.listeners"] == "PLAINTEXT://box:9092"
    settings = broker(ZOOKEEPER | {"KAFKA_LISTENERS": "PLAINTEXT://kafka:9092"})
    assert settings["advertised.listeners"] == "PLAINTEXT://kafka:9092"


def test_without_a_zookeeper_the_broker_gets_one_and_is_at_localhost() -> None:
    settings = container_settings({}, "box")
    assert settings.broker == {
        "zookeeper.connect": "localhost:2181",
        "broker.id": "1",
        "listeners": "PLAINTEXT://0.0.0.0:9092",
        "advertised.listeners": "PLAINTEXT://localhost:9092",
        "log.dirs": "/var/lib/kafka/data",
    }
    assert settings.zookeeper is not None and settings.zookeeper["clientPort"] == "2181"
    assert settings.zookeeper_id is None


def test_variables_of_a_kraft_broker_give_a_broker_with_its_own_zookeeper() -> None:
    given = {
        "CLUSTER_ID": "x",
        "KAFKA_NODE_ID": "7",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "7@localhost:9094",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
    }
    settings = broker(given)
    assert settings["broker.id"] == "7"
    assert settings["listeners"] == "PLAINTEXT://0.0.0.0:9092"
    assert settings["listener.security.protocol.map"] == "PLAINTEXT:PLAINTEXT"
    assert not {"process.roles", "node.id", "controller.quorum.voters"} & settings.keys()
    assert container_settings(given, "box").zookeeper is not None


def test_a_kraft_controller_is_refused() -> None:
    with pytest.raises(ConfigError, match="KAFKA_PROCESS_ROLES=controller"):
        container_settings({"KAFKA_PROCESS_ROLES": "controller"}, "box")


def test_zookeeper_variables_become_its_settings() -> None:
    settings = zookeeper(
        {
            "ZOOKEEPER_CLIENT_PORT": "2182",
            "ZOOKEEPER_TICK_TIME": "500",
            "ZOOKEEPER_MAX_CLIENT_CNXNS": "9",
            "ZOOKEEPER_AUTOPURGE_SNAP_RETAIN_COUNT": "4",
            "ZOOKEEPER_4LW_COMMANDS_WHITELIST": "*",
            "ZOOKEEPER_SERVICE_HOST": "10.0.0.1",
            "KAFKA_OPTS": "-Dx=y",
        }
    )
    assert settings == {
        "clientPort": "2182",
        "dataDir": "/var/lib/zookeeper/data",
        "dataLogDir": "/var/lib/zookeeper/log",
        "tickTime": "500",
        "maxClientCnxns": "9",
        "autopurge.snapRetainCount": "4",
        "4lw.commands.whitelist": "*",
    }


def test_members_of_an_ensemble() -> None:
    given = {
        "ZOOKEEPER_CLIENT_PORT": "2181",
        "ZOOKEEPER_SERVER_ID": "2",
        "ZOOKEEPER_SERVERS": "a:2888:3888;b:2888:3888;c:2888:3888",
    }
    settings = zookeeper(given)
    assert settings["server.2"] == "b:2888:3888" and settings["initLimit"] == "10"
    assert container_settings(given, "box").zookeeper_id == 2


@pytest.mark.parametrize("number", ["", "0", "4", "x"])
def test_a_member_must_be_one_of_the_ensemble(number: str) -> None:
    with pytest.raises(ConfigError, match="from 1 to 3"):
        zookeeper({"ZOOKEEPER_SERVER_ID": number, "ZOOKEEPER_SERVERS": "a:1:2;b:1:2;c:1:2"})


def test_one_server_is_no_ensemble() -> None:
    assert "server.1" not in zookeeper({"ZOOKEEPER_CLIENT_PORT": "2181", "ZOOKEEPER_SERVERS": "a:2888:3888"})
