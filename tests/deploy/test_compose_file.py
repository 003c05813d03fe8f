"""The Compose file without Docker: what it says is right for both generations of Compose, and fits the image and Prometheus."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

import kafkalite
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.broker_keys import BROKER_KEYS
from kafkalite.config.environment import container_settings
from tests.conftest import foreign_program

DEPLOY: Final = Path(kafkalite.__file__).parents[1] / "deploy"
FILE: Final = DEPLOY / "compose.yaml"
BROKERS: Final = ("broker-1", "broker-2", "broker-3")
ZOOKEEPERS: Final = ("zookeeper-1", "zookeeper-2", "zookeeper-3")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """As docker-compose 1.29 understands the file, without variables set."""
    program = foreign_program("docker-compose", "docker-compose")
    command = [program, "--file", FILE, "--profile", "monitoring", "config"]
    done = subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = yaml.safe_load(done.stdout)["services"]
    return found


def test_the_schema_of_compose_2_accepts_the_file() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", FILE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_services_are_those_of_the_description(services: dict[str, Any]) -> None:
    assert services.keys() == {*BROKERS, *ZOOKEEPERS, "prometheus"}
    assert services["prometheus"]["profiles"] == ["monitoring"]


@pytest.mark.parametrize("name", BROKERS)
def test_brokers_get_settings_that_they_know(services: dict[str, Any], name: str) -> None:
    settings = container_settings(services[name]["environment"], name).broker
    assert settings is not None
    assert settings.keys() <= BROKER_KEYS.keys()
    config = BrokerConfig.from_properties(settings)
    assert name == f"broker-{config.broker_id}"
    assert {endpoint.host for endpoint in config.advertised_listeners} == {"localhost", name}
    assert settings["zookeeper.connect"] == ",".join(f"{each}:2181" for each in ZOOKEEPERS)


@pytest.mark.parametrize("name", ZOOKEEPERS)
def test_servers_know_which_of_the_ensemble_they_are(services: dict[str, Any], name: str) -> None:
    found = container_settings(services[name]["environment"], name)
    assert found.zookeeper is not None
    assert name == f"zookeeper-{found.zookeeper_id}"
    members = [found.zookeeper[f"server.{number}"] for number in (1, 2, 3)]
    assert members == [f"{each}:2888:3888" for each in ZOOKEEPERS]


@pytest.mark.parametrize("name", [*BROKERS, *ZOOKEEPERS])
def test_data_lives_in_named_volumes(services: dict[str, Any], name: str) -> None:
    """An anonymous volume, which the image would make, is lost at the next `down`."""
    settings = container_settings(services[name]["environment"], name)
    if settings.broker is not None:
        needed = {settings.broker["log.dirs"]}
    else:
        assert settings.zookeeper is not None
        needed = {settings.zookeeper["dataDir"], settings.zookeeper["dataLogDir"]}
    mounted = dict(reversed(volume.split(":")[:2]) for volume in services[name]["volumes"])
    assert mounted.keys() == needed
    assert all(source.startswith(name) for source in mounted.values())


@pytest.mark.parametrize("name", [*BROKERS, *ZOOKEEPERS])
def test_nothing_is_published_beyond_this_machine(services: dict[str, Any], name: str) -> None:
    """There is no login."""
    assert services[name]["ports"]
    assert all(port.startswith("127.0.0.1:") for port in services[name]["ports"])


def test_prometheus_scrapes_every_broker(services: dict[str, Any]) -> None:
    (job,) = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    (targets,) = [each["targets"] for each in job["static_configs"]]
    listeners = {name: services[name]["environment"]["KAFKA_KAFKALITE_HTTP_LISTENER"] for name in BROKERS}
    assert targets == [f"{name}:{listener.rpartition(':')[2]}" for name, listener in listeners.items()]
    (settings, _) = services["prometheus"]["volumes"]
    assert settings == f"{DEPLOY}/prometheus:/etc/prometheus:ro"
