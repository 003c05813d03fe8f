"""`kafkalite zk run`: what becomes of the process, and what stops it before."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkalite.cli.zookeeper.command import zk


class Replaced(Exception):
    """Stands for the process that this one would have become."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with Java and ZooKeeper, so far as the command looks at them."""
    jars = ["zookeeper-3.9.5", "zookeeper-jute-3.9.5", "slf4j-api-2.0.13", "metrics-core-4.1.12", "snappy-java-1.1.10"]
    jars += [f"netty-{part}-4.1.105" for part in ("buffer", "codec", "common", "handler", "resolver", "transport")]
    for name in jars:
        tmp_path.joinpath(f"{name}.jar").touch()
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    monkeypatch.setenv("ZOOKEEPER_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("SERVER_JVMFLAGS", "-Xmx1g -Dname='two words'")
    return tmp_path


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    commands: list[Sequence[str]] = []

    def execve(program: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        assert program == command[0] and environment["LC_ALL"] == "C.UTF-8"
        commands.append(command)
        raise Replaced

    monkeypatch.setattr(os, "execve", execve)
    return commands


def run(*arguments: str) -> Result:
    return CliRunner().invoke(zk, ["run", *arguments])


@pytest.fixture
def settings(home: Path) -> Path:
    path = home / "zoo.cfg"
    path.write_text(f"dataDir={home}/data\nclientPort=2181\n")
    return path


def test_the_process_becomes_the_server(home: Path, settings: Path, became: list[Sequence[str]]) -> None:
    assert isinstance(run("--config", str(settings), "--id", "3", "--heap-mb", "256").exception, Replaced)
    ((java, *options, main_class, config),) = became
    assert java == str(home / "java/bin/java")
    assert (main_class, config) == ("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(settings))
    # What the user gives to Java comes last, so it wins.
    assert options.index("-Xmx256m") < options.index("-Xmx1g") < options.index("-Dname=two words")
    assert (home / "data/myid").read_text() == "3\n"


def test_a_member_keeps_its_id(home: Path, settings: Path, became: list[Sequence[str]]) -> None:
    for _ in range(2):
        assert isinstance(run("--config", str(settings), "--id", "3").exception, Replaced)
    refused = run("--config", str(settings), "--id", "4")
    assert refused.exit_code == 1
    assert (
        f"{home}/data/myid says that this is server 3, not 4; give the right --id or another dataDir" in refused.output
    )
    assert len(became) == 2


def test_settings_without_a_data_directory(home: Path, became: list[Sequence[str]]) -> None:
    path = home / "zoo.cfg"
    path.write_text("clientPort=2181\n")
    refused = run("--config", str(path))
    assert (refused.exit_code, refused.output) == (
        2,
        f"Error: {path} has no dataDir; ZooKeeper needs to know where its data is\n",
    )
    assert not became


def test_settings_that_are_not_there(home: Path, became: list[Sequence[str]]) -> None:
    refused = run("--config", str(home / "no.cfg"))
    assert refused.exit_code == 1
    assert "No such file" in refused.output
    assert not became


def test_a_file_that_java_would_read_otherwise_is_refused(
    home: Path, settings: Path, became: list[Sequence[str]]
) -> None:
    settings.write_text(f"dataDir={home}/Jürgen\nclientPort=2181\n")
    result = run("--config", str(settings))
    assert result.exit_code == 2 and "write those beyond ASCII as \\uXXXX" in result.stderr
    assert became == [] and not (home / "Jürgen").exists()
