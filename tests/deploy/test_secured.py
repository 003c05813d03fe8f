"""The secured variants of the Compose file and the manifests, with the folder that `kafkalite cluster secure` makes for them."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner

import kafkalite
from kafkalite.cli.main import main
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.broker_keys import BROKER_KEYS
from kafkalite.config.environment import container_settings
from kafkalite.local.broker_process import start_process
from kafkalite.local.ports import ReservedPort
from kafkalite.local.secured import ClusterSecurity
from kafkalite.zookeeper_connection import store_security
from tests.conftest import foreign_program
from zk.kazoo_adapter.kazoo_store import KazooStore
from zk.servers.server_command import server_command

DEPLOY: Final = Path(kafkalite.__file__).parents[1] / "deploy"
BROKERS: Final = ("broker-1", "broker-2", "broker-3")
ZOOKEEPERS: Final = ("zookeeper-1", "zookeeper-2", "zookeeper-3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the Compose files, and the folder that servers find where it is."""
    made = tmp_path_factory.mktemp("deploy")
    for path in DEPLOY.glob("compose*.yaml"):
        shutil.copy(path, made)
    hosts = [part for name in (*BROKERS, *ZOOKEEPERS) for part in ("--host", name)]
    done = CliRunner().invoke(main, ["cluster", "secure", str(made / "security"), *hosts])
    assert done.exit_code == 0, done.output
    assert not any(text in done.output for text in ClusterSecurity(made / "security").passwords.values())
    return made


@pytest.fixture(scope="module")
def services(folder: Path) -> dict[str, Any]:
    """As docker-compose 1.29 understands the two files together."""
    program = foreign_program("docker-compose", "docker-compose")
    files = [part for name in ("compose.yaml", "compose.secure.yaml") for part in ("--file", str(folder / name))]
    done = subprocess.run(
        [program, *files, "config"], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = yaml.safe_load(done.stdout)["services"]
    return found


def check_broker(settings: Mapping[str, str]) -> BrokerConfig:
    """It knows all that it is given, and lets nobody in without TLS, nor without credentials."""
    assert settings.keys() <= BROKER_KEYS.keys() | {key for key in settings if key.startswith("listener.name.")}
    config = BrokerConfig.from_properties(settings)
    assert [each.security_protocol for each in config.listeners] == ["SASL_SSL", "SSL"]
    assert config.originals["listener.name.brokers.ssl.client.auth"] == "required"
    assert config.inter_broker_listener_name == "BROKERS"
    assert config.authorizer_class_name and config.kafkalite_http_users_file and config.kafkalite_http_ssl_enable
    return config


def test_the_schema_of_compose_2_accepts_the_file() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, DEPLOY / "compose.secure.yaml"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", BROKERS)
def test_brokers_of_compose_are_closed(services: dict[str, Any], folder: Path, name: str) -> None:
    environment = services[name]["environment"]
    assert not any("$" in text for text in environment.values()), "Compose 2 would put variables there"
    settings = container_settings(environment, name).broker
    assert settings is not None
    config = check_broker(settings)
    assert {endpoint.host for endpoint in config.advertised_listeners} == {"localhost", name}
    assert store_security(config, {}).sets_acls, "the folder is where the settings say"


def test_servers_of_compose_are_closed(services: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    """One of them, alone, as the image would start it; it lets in who has a certificate."""
    environment = services["zookeeper-1"]["environment"]
    settings = container_settings(environment, "zookeeper-1").zookeeper
    assert settings is not None and settings["sslQuorum"] == "true" and settings["clientPortAddress"] == "127.0.0.1"
    client, secure = ReservedPort(), ReservedPort()
    own = {
        **{key: text for key, text in settings.items() if not key.startswith("server.") and key != "sslQuorum"},
        **{"dataDir": str(tmp_path), "dataLogDir": str(tmp_path)},
        **{"clientPort": str(client.number), "secureClientPort": str(secure.number)},
        "secureClientPortAddress": "127.0.0.1",
        "admin.enableServer": "false",
    }
    path = tmp_path / "zoo.cfg"
    path.write_text("".join(f"{key}={text}\n" for key, text in own.items()))
    options = ("-Xmx64m", *shlex.split(environment["KAFKA_OPTS"]))
    with (tmp_path / "server.log").open("wb") as log:
        process = start_process(server_command(path, tmp_path, options), log)

    async def look() -> None:
        security = ClusterSecurity(folder / "security")
        store = KazooStore(f"127.0.0.1:{secure.number}", 4.0, security=security.store_security())
        await store.start(60)
        await store.close()

    try:
        asyncio.run(look())
    finally:
        process.kill()
        process.wait()
        client.release()
        secure.release()


def test_manifests_are_closed(folder: Path) -> None:
    kubectl = foreign_program("kubectl", "kubernetes-client")
    done = subprocess.run(
        [kubectl, "kustomize", DEPLOY / "kubernetes-secure"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    manifests = list(yaml.safe_load_all(done.stdout))
    for manifest in manifests:
        kubernetes_validate.validate(manifest, kubernetes_validate.utils.latest_version(), strict=True)
    sets = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in manifests
        if each["kind"] == "StatefulSet"
    }
    (settings,) = (each["data"] for each in manifests if each["kind"] == "ConfigMap")
    (broker,), (server,) = (sets[name]["containers"] for name in ("broker", "zookeeper"))
    secret = dict(line.split("=", 1) for line in (folder / "security" / "broker.env").read_text().splitlines())
    (script,) = broker["args"]
    given = {"HOSTNAME": "broker-1", "POD_NAMESPACE": "kafkalite", "PATH": os.environ["PATH"], **settings, **secret}
    command = [*broker["command"], script.replace("exec /etc/confluent/docker/run", "exec env -0")]
    printed = subprocess.run(command, env=given, capture_output=True, text=True, check=True).stdout
    found = container_settings(dict(line.split("=", 1) for line in printed.split("\0") if line), "broker-1").broker
    assert found is not None
    config = check_broker(found)
    assert config.zookeeper_connect.startswith("zookeeper-0.zookeeper:2182,")
    assert {each.port for each in config.advertised_listeners} == {9092, 9093}
    assert {each["name"]: each["value"] for each in server["env"] if "value" in each}["ZOOKEEPER_SSL_QUORUM"] == "true"
    assert server["livenessProbe"]["tcpSocket"]["port"] == 2182, "the other port is the pod's own"
    assert broker["readinessProbe"]["httpGet"] == {"path": "/ready", "port": "http", "scheme": "HTTPS"}
    for pod in sets.values():
        (security,) = (each for each in pod["volumes"] if each["name"] == "security")
        assert security["secret"]["defaultMode"] & 0o007 == 0
