"""The pytest plugin without a cluster: its settings, its names, and what it costs those who do not use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kafkalite.testing.pytest_plugin import SETTINGS, Chosen, _logs_of, read_settings, topic_name
from kafkalite.types import TopicPartition

LARGEST_TOPIC_NAME = 249


class Config:
    """As much of pytest's as the plugin asks for."""

    inipath = Path("pytest.ini")

    def __init__(self, options: dict[str, str] | None = None, ini: dict[str, str] | None = None) -> None:
        self._options, self._ini = options or {}, ini or {}

    def getoption(self, name: str) -> str | None:
        return self._options.get(name)

    def getini(self, name: str) -> str:
        return self._ini.get(name, "")


def settings(
    options: dict[str, str] | None = None, ini: dict[str, str] | None = None, environment: dict[str, str] | None = None
) -> Chosen:
    return read_settings(Config(options, ini), environment or {})  # type: ignore[arg-type]


def test_defaults_are_one_broker_and_one_server_on_this_machine() -> None:
    assert settings() == Chosen("local", 1, 1, None)


def test_command_line_wins_over_environment_and_that_over_the_ini_file() -> None:
    options = {"--kafkalite-brokers": "5"}
    environment = {"KAFKALITE_TEST_BROKERS": "4", "KAFKALITE_TEST_ZOOKEEPERS": "3"}
    ini = {
        "kafkalite_brokers": "2",
        "kafkalite_zookeepers": "5",
        "kafkalite_mode": "docker",
        "kafkalite_image": "mine:1",
    }
    assert settings(options, ini, environment) == Chosen("docker", 5, 3, "mine:1")
    assert settings({}, ini, environment).brokers == 4
    assert settings({}, ini).brokers == 2


@pytest.mark.parametrize(
    ("options", "ini", "environment", "message"),
    [
        ({"--kafkalite-mode": "cloud"}, {}, {}, "--kafkalite-mode is 'cloud'; it may be local or docker"),
        (
            {},
            {"kafkalite_brokers": "many"},
            {},
            "kafkalite_brokers in pytest.ini is 'many'; it must be a number from 1",
        ),
        ({}, {}, {"KAFKALITE_TEST_BROKERS": "0"}, r"\$KAFKALITE_TEST_BROKERS is '0'; it must be a number from 1"),
    ],
)
def test_what_cannot_be_is_refused_by_its_place(
    options: dict[str, str], ini: dict[str, str], environment: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        settings(options, ini, environment)


@pytest.mark.parametrize("test_name", ["test_a", "test_b[x/ä y-1]", "test_" + 300 * "long", "тест"])
def test_topic_names_are_legal_and_differ(test_name: str) -> None:
    first, second = topic_name(test_name), topic_name(test_name)
    assert first != second
    assert len(f"{TopicPartition(first, 999_999)}") <= LARGEST_TOPIC_NAME
    assert set(first) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")
    assert not first.startswith("-")


def test_a_report_is_written_when_a_cluster_has_no_logs() -> None:
    """Docker may be gone, or the directory of a cluster of processes."""

    class Gone:
        def logs(self, lines: int = 60) -> dict[str, str]:
            raise OSError("no such container")

    assert list(_logs_of(Gone()).values()) == ["a cluster has no logs to show: OSError('no such container')"]


def test_the_plugin_loads_nothing_that_a_test_did_not_ask_for() -> None:
    """Every pytest run of an environment where kafkalite is installed loads the plugin."""
    code = (
        "import sys, pytest; before = set(sys.modules); import kafkalite.testing.pytest_plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    foreign = {name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names}
    assert foreign == {"kafkalite", "kafkalite.testing", "kafkalite.testing.pytest_plugin"}


def test_every_setting_has_a_name_in_each_place() -> None:
    assert [(each.option, each.variable, each.ini_name) for each in SETTINGS] == [
        ("--kafkalite-mode", "KAFKALITE_TEST_MODE", "kafkalite_mode"),
        ("--kafkalite-brokers", "KAFKALITE_TEST_BROKERS", "kafkalite_brokers"),
        ("--kafkalite-zookeepers", "KAFKALITE_TEST_ZOOKEEPERS", "kafkalite_zookeepers"),
        ("--kafkalite-secure", "KAFKALITE_TEST_SECURE", "kafkalite_secure"),
        ("--kafkalite-image", "KAFKALITE_TEST_IMAGE", "kafkalite_image"),
    ]
