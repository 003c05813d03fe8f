"""How `kafkalite console` refuses to begin."""

from __future__ import annotations

import socket
from pathlib import Path

import click
import pytest

from kafkalite.cli.calls import bootstrap_option, contexts_option
from kafkalite.cli.console.clusters import ClusterSettings, choose_contexts, gather_settings
from kafkalite.cli.console.command import _access
from tests.case import case
from tests.unit.cli.test_commands import call


def test_nobody_looks_from_elsewhere_without_a_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, environment, told in (
        ((), {}, "name who may look"),
        ((), {"KAFKALITE_CONSOLE_USER": "ann"}, "belong together"),
        (("--users-file", str(tmp_path / "absent")), {}, "--users-file"),
    ):
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            result = call("console", "--host", "0.0.0.0", *arguments)
        assert result.exit_code == 2 and told in result.stderr


def test_a_console_that_others_reach_only_reads(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("ann:secret\n")
    users.chmod(0o600)
    for host, wanted, is_read_only in (
        ("127.0.0.1", None, False),
        ("127.0.0.1", True, True),
        ("0.0.0.0", None, True),
        ("0.0.0.0", False, False),
    ):
        assert _access(host, (), str(users), wanted).read_only is is_read_only


def test_what_cannot_be_served_is_told_with_its_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = call("console", "--port", str(taken.getsockname()[1]))
    assert result.exit_code == 1 and "cannot bind 127.0.0.1:" in result.stderr and "--port" in result.stderr
    result = call("console", "--schema-registry", "nonsense")
    assert result.exit_code == 2 and "http://" in result.stderr


def test_a_cluster_that_is_away_ends_it() -> None:
    with socket.socket() as held:  # nobody listens there, and nobody else takes it
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        result = call("console", "--port", "0", "-b", f"127.0.0.1:{port}")
    assert result.exit_code == 5 and str(port) in result.stderr


CONTEXTS = """
current-context = "production"

[contexts.staging]
bootstrap.servers = "staging:9092"
client.id = "of-staging"

[contexts.production]
bootstrap.servers = "production:9092"
zookeeper.connect = "production:2181"

[contexts.without]
client.id = "x"
"""


@pytest.fixture
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with three contexts, of which one has no servers; and an environment that names another cluster."""
    path = tmp_path / "contexts.toml"
    path.write_text(CONTEXTS)
    monkeypatch.setenv("KAFKALITE_CONFIG", str(path))
    monkeypatch.setenv("KAFKALITE_BOOTSTRAP_SERVERS", "elsewhere:9092")
    monkeypatch.setenv("KAFKALITE_ZOOKEEPER", "elsewhere:2181")
    return path


def settings_of(
    *arguments: str, registries: tuple[str, ...] = (), nights: tuple[str, ...] = ()
) -> list[ClusterSettings]:
    """The settings that the console connects with when it is given these options."""
    found: list[ClusterSettings] = []

    @click.command()
    @bootstrap_option
    @contexts_option
    def command(context: tuple[str, ...]) -> None:
        found.extend(gather_settings(choose_contexts(context, False, ""), "", registries, nights))

    command.main(arguments, standalone_mode=False)
    return found


@pytest.mark.usefixtures("contexts")
def test_each_of_several_contexts_has_its_own_settings() -> None:
    staging, production = settings_of(
        *("--context", "staging", "--context", "production", "-X", "request.timeout.ms=7000"),
        registries=("http://all:8081", "staging=http://own:8081"),
        nights=("production=/ledger=1",),
    )
    assert staging.asking["bootstrap_servers"] == staging.producing["bootstrap_servers"] == "staging:9092"
    assert staging.consuming["client_id"] == "of-staging" and "client_id" not in production.consuming
    assert production.asking["bootstrap_servers"] == "production:9092"
    assert staging.asking["request_timeout_ms"] == production.asking["request_timeout_ms"] == 7000
    assert (staging.connect, production.connect) == (None, "production:2181"), "not the environment's"
    assert (staging.nights, production.nights) == (None, "/ledger=1")
    assert staging.registry is not None and production.registry is not None
    assert (staging.where.context, staging.name) == ("staging", "staging (staging:9092)")


@pytest.mark.usefixtures("contexts")
def test_one_context_is_what_it_is_for_other_commands() -> None:
    (found,) = settings_of("--context", "staging", "--context", "staging")
    assert (found.asking["bootstrap_servers"], found.connect) == ("staging:9092", "elsewhere:2181")
    (found,) = settings_of()
    assert (found.asking["bootstrap_servers"], found.where.context) == ("elsewhere:9092", "production")


@pytest.mark.usefixtures("contexts")
def test_what_names_one_cluster_is_refused_for_several() -> None:
    two = ("--context", "staging", "--context", "production")
    for arguments, told in (
        ((*two, "-b", "h:9092"), "--bootstrap-server names one cluster"),
        ((*two, "-z", "h:2181"), "--zookeeper names one cluster"),
        ((*two, "-X", "bootstrap.servers=h:9092"), "-X bootstrap.servers names one cluster"),
        ((*two, "--nights", "a", "--nights", "b"), "--nights is given twice"),
        ((*two, "--schema-registry", "staging=nonsense"), "http://"),
        (("--context", "staging", "--context", "absent"), "no context absent"),
        (("--context", "staging", "--context", "without"), "kafkalite context set without bootstrap.servers=HOST:PORT"),
        (("--all-contexts",), "kafkalite context set without bootstrap.servers=HOST:PORT"),
        (("--all-contexts", "--context", "staging"), "give one of them"),
    ):
        with case(told):
            result = call("console", "--port", "0", *arguments)
            assert result.exit_code == 2 and told in result.stderr, result.stderr


def test_all_contexts_begin_with_the_current_one(contexts: Path) -> None:
    contexts.write_text(CONTEXTS.partition("[contexts.without]")[0])
    with click.Context(click.Command("console")):
        assert choose_contexts((), True, "") == ["production", "staging"]
    contexts.write_text("")
    result = call("console", "--all-contexts")
    assert result.exit_code == 2 and f"there are none in {contexts}" in result.stderr
