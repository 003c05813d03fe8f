"""What the container image asks of Python."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkalite.cli import image, image_health
from kafkalite.config.keys import ConfigError
from kafkalite.config.properties import read_properties

DOCKER_SCRIPTS = Path(__file__).parents[3] / "deploy/images/rootfs/etc/confluent/docker"
API_VERSIONS_OK = b"\0\0\0\x0a\0\0\0\x01\0\0\0\0\0\0"
"""Length, correlation id, error code, no API."""


@pytest.fixture
def serve() -> Iterator[Callable[[bytes], int]]:
    """The port of a server that answers each connection's first bytes with these, and closes it."""
    listeners: list[socket.socket] = []

    def start(answer: bytes) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=run, args=(listener, answer), daemon=True).start()
        return int(listener.getsockname()[1])

    def run(listener: socket.socket, answer: bytes) -> None:
        while True:
            try:
                stream, _ = listener.accept()
            except OSError:
                return
            with stream:
                stream.recv(1000)
                stream.sendall(answer)

    yield start
    for listener in listeners:
        listener.close()


def configure(directory: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> int:
    for name in [name for name in os.environ if name.startswith(("KAFKA_", "ZOOKEEPER_"))]:
        monkeypatch.delenv(name)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    return image.main(["configure", "--directory", str(directory)])


def test_wrong_settings_of_a_broker_are_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = tmp_path / "logs"
    wrong = {"KAFKA_NUM_PARTITIONS": "many", "KAFKA_UNKNOWN_TO_US": "x", "KAFKA_LOG_DIRS": str(logs)}
    assert configure(tmp_path, monkeypatch, **wrong) == 1
    assert "num.partitions" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_broker_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zookeeper.properties").write_text("left=by another role")
    logs = tmp_path / "logs"
    status = configure(tmp_path, monkeypatch, KAFKA_ZOOKEEPER_CONNECT="zk:2181", KAFKA_LOG_DIRS=str(logs))
    assert status == 0
    settings = read_properties(tmp_path / "kafka.properties")
    assert settings["zookeeper.connect"] == "zk:2181"
    assert settings["advertised.listeners"] == f"PLAINTEXT://{socket.gethostname()}:9092"
    assert logs.is_dir()
    assert not (tmp_path / "zookeeper.properties").exists()
    assert (tmp_path / "health").read_text() == "broker 127.0.0.1 9092 PLAINTEXT\n"


@pytest.mark.parametrize(
    ("mode", "options"), [(None, "--guard"), ("session", ""), ("observe", "--guard"), ("evidence", "--guard")]
)
def test_a_broker_is_guarded_where_its_death_is_noticed(
    mode: str | None, options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process of the container is the broker itself otherwise."""
    given = {} if mode is None else {"KAFKA_KAFKALITE_FAILOVER_DETECTION": mode}
    logs = str(tmp_path / "logs")
    assert configure(tmp_path, monkeypatch, KAFKA_ZOOKEEPER_CONNECT="zk:2181", KAFKA_LOG_DIRS=logs, **given) == 0
    script = (DOCKER_SCRIPTS / "launch").read_text().replace("/etc/kafka/", f"{tmp_path}/")
    start = tmp_path / "kafka-server-start"
    start.write_text('#!/bin/sh\necho "$@"\n')
    start.chmod(0o755)
    script = script.replace("/etc/confluent/docker", str(DOCKER_SCRIPTS))
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    launched = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert launched.stdout.split() == [f"{tmp_path}/kafka.properties", *options.split()]
    assert launched.stderr == ""


def test_a_member_of_an_ensemble_gets_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, log = tmp_path / "data", tmp_path / "log"
    status = configure(
        tmp_path,
        monkeypatch,
        ZOOKEEPER_SERVERS="a:1:2;b:1:2;c:1:2",
        ZOOKEEPER_SERVER_ID="3",
        ZOOKEEPER_DATA_DIR=str(data),
        ZOOKEEPER_DATA_LOG_DIR=str(log),
    )
    assert status == 0
    assert (data / "myid").read_text() == "3\n"
    assert read_properties(tmp_path / "zookeeper.properties")["dataLogDir"] == str(log)
    assert (tmp_path / "health").read_text() == "zookeeper 127.0.0.1 2181\n"
    assert not (tmp_path / "kafka.properties").exists()


def test_what_cannot_be_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert configure(tmp_path, monkeypatch, KAFKA_PROCESS_ROLES="controller") == 1
    assert capsys.readouterr().err.startswith("Error: KAFKA_PROCESS_ROLES=controller")


def test_a_volume_that_cannot_be_written_to_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=f"cannot write to .*chown {os.getuid()}"):
        image.make_writable(tmp_path / "file" / "below")


@pytest.mark.parametrize(
    ("listeners", "protocols", "found"),
    [
        ("PLAINTEXT://0.0.0.0:9092", None, ("127.0.0.1", 9092)),
        ("PLAINTEXT://:9092", None, ("127.0.0.1", 9092)),
        ("SSL://0.0.0.0:1,PLAINTEXT://kafka:2", None, ("kafka", 2)),
        ("A://[::]:1,B://h:2", "A:SASL_PLAINTEXT,B:SASL_SSL", ("127.0.0.1", 1)),
        ("SSL://0.0.0.0:1", None, ("127.0.0.1", 1)),
    ],
)
def test_the_listener_to_ask(listeners: str, protocols: str | None, found: tuple[str, int]) -> None:
    properties = {"listeners": listeners}
    if protocols:
        properties["listener.security.protocol.map"] = protocols
    assert image.health_endpoint(properties)[1:3] == found


@pytest.mark.parametrize(
    ("broker", "zookeeper", "status", "reason"),
    [
        (API_VERSIONS_OK, None, 0, ""),
        (None, b"Zookeeper version: 3.9\nMode: follower\n", 0, ""),
        (API_VERSIONS_OK, b"Mode: standalone", 0, ""),
        (b"\0\0\0\x06\0\0\0\x01\0\x23", None, 1, "answers no ApiVersions request"),
        (b"HTTP/1.1 400", None, 1, "answers no ApiVersions request"),
        (b"", None, 1, "answers no ApiVersions request"),
        (None, b"This ZooKeeper instance is not currently serving requests", 1, "does not serve yet"),
        (API_VERSIONS_OK, b"", 1, "does not serve yet"),
    ],
)
def test_health(
    tmp_path: Path,
    serve: Callable[[bytes], int],
    capsys: pytest.CaptureFixture[str],
    broker: bytes | None,
    zookeeper: bytes | None,
    status: int,
    reason: str,
) -> None:
    lines = ""
    if broker is not None:
        lines = image.health_lines({"listeners": f"PLAINTEXT://:{serve(broker)}"}, None)
    if zookeeper is not None:
        lines += image.health_lines(None, {"clientPort": str(serve(zookeeper))})
    (tmp_path / "health").write_text(lines)
    assert image_health.main(str(tmp_path / "health")) == status
    assert reason in capsys.readouterr().err


def test_a_container_without_configuration_is_not_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert image_health.main(str(tmp_path / "health")) == 1
    assert "nothing is configured" in capsys.readouterr().err


def test_waiting_for_zookeeper_ends_when_all_serve(
    serve: Callable[[bytes], int], capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = serve(b"Mode: leader"), serve(b"not now")
    assert image.main(["zk-ready", f"127.0.0.1:{good},127.0.0.1:{good}/chroot", "5"]) == 0
    assert image.main(["zk-ready", f"127.0.0.1:{good},127.0.0.1:{bad}", "0.1"]) == 1
    assert f"not within 0.1 s: the ZooKeeper server at 127.0.0.1:{bad} does not serve yet" in capsys.readouterr().err


def test_the_health_check_imports_next_to_nothing() -> None:
    """It runs every few seconds in each container; by itself, as in the image."""
    assert image_health.__file__ is not None
    command = [sys.executable, "-X", "importtime", "-I", "-S", image_health.__file__, "/nonexistent"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "nothing is configured" in done.stderr
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time")}
    assert not imported & {"kafkalite", "site", "ssl", "argparse", "dataclasses", "pathlib", "asyncio"}


def test_the_request_says_how_long_it_and_its_client_id_are() -> None:
    request = image_health._API_VERSIONS
    assert int.from_bytes(request[:4], "big") == len(request) - 4
    assert request[4:12] == bytes([0, 18, 0, 0, 0, 0, 0, 1]), "ApiVersions 0, correlation id 1"
    assert int.from_bytes(request[12:14], "big") == len(request) - 14 > 0
