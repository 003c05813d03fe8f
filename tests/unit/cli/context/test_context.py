"""`kafkalite context`, and which of several places a command takes a setting from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from kafkalite.cli.calls import bootstrap_option, client_options
from kafkalite.cli.main import main
from kafkalite.cli.zookeeper.session import zookeeper_option
from tests.unit.client.fake_broker import FakeCluster


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture(autouse=True)
def in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of the test's own, and an environment without settings."""
    monkeypatch.chdir(tmp_path)
    for name in ("KAFKALITE_BOOTSTRAP_SERVERS", "KAFKALITE_ZOOKEEPER"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@click.command()
@click.option("--client", default="Admin")
@zookeeper_option
@bootstrap_option
def probe(client: str, zookeeper: str) -> None:
    """Print what a command of ours would call the cluster with."""
    options = client_options(client)
    click.echo(json.dumps({**options, "zookeeper": zookeeper}))


def options_of(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(probe, list(arguments))
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def refusal(*arguments: str) -> str:
    result = CliRunner().invoke(probe, list(arguments))
    assert result.exit_code == 2 and result.stdout == "", result.output
    return result.stderr


def test_contexts_are_made_listed_used_and_deleted(own_contexts: Path) -> None:
    assert call("context", "list").stdout.split() == ["NAME", "CURRENT", "BOOTSTRAP", "SERVERS", "ZOOKEEPER", "CONNECT"]
    made = call("context", "set", "prod", "bootstrap.servers=a:1,b:2", "zookeeper.connect=z:3/k", "--use")
    assert (made.exit_code, made.stdout, made.stderr) == (0, "", f"context prod is kept in {own_contexts}\n")
    assert call("context", "set", "dev", "bootstrap.servers=d:1").exit_code == 0
    listed = call("context", "list").stdout.splitlines()
    assert [line.split() for line in listed[1:]] == [["dev", "no", "d:1", "-"], ["prod", "yes", "a:1,b:2", "z:3/k"]]
    assert call("context", "list", "-o", "name").stdout == "dev\nprod\n"
    assert call("context", "use", "dev").stderr == f"dev is the current context of {own_contexts}\n"
    assert json.loads(call("context", "show", "-o", "json").stdout) == [
        {"key": "bootstrap.servers", "value": "d:1", "source": f"{own_contexts}: context dev"}
    ]
    assert call("context", "delete", "dev").exit_code == 2, "a script must say --yes"
    assert call("context", "delete", "dev", "--yes").exit_code == 0
    assert call("context", "show").stderr.startswith("no context is current")
    assert call("context", "list", "-o", "name").stdout == "prod\n"


def test_nothing_is_written_by_a_dry_run(own_contexts: Path) -> None:
    result = call("context", "set", "prod", "acks=1", "--dry-run")
    assert result.stdout == '[contexts.prod]\nacks = "1"\n' and "would be written" in result.stderr
    assert not own_contexts.exists()
    call("context", "set", "prod", "acks=1")
    assert call("context", "use", "prod", "--dry-run").stdout.startswith('current-context = "prod"\n')
    assert call("context", "delete", "prod", "--dry-run").stdout == ""
    assert own_contexts.read_text() == '[contexts.prod]\nacks = "1"\n'


def test_what_does_not_exist_is_told(own_contexts: Path) -> None:
    for verb in (("use", "no"), ("show", "no"), ("delete", "no", "--yes")):
        result = call("context", *verb)
        assert result.exit_code == 3 and f"no context no in {own_contexts}" in result.stderr
    assert call("context", "set", "a").exit_code == 2
    assert call("context", "set", "a", "novalue").exit_code == 2
    bad = call("context", "set", "a", "bootstrap.server=x:1")
    assert bad.exit_code == 2 and "bootstrap.server: no client has a setting of this name" in bad.stderr
    assert call("context", "set", "a b", "acks=1").exit_code == 2
    own_contexts.write_text("broken")
    broken = call("context", "list")
    assert broken.exit_code == 2 and f"{own_contexts}: it is not TOML" in broken.stderr
    assert f"{own_contexts}: it is not TOML" in call("topic", "list").stderr


def test_the_projects_file_wins(own_contexts: Path, in_a_project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call("context", "set", "shared", "bootstrap.servers=user:1", "client.id=me", "--use")
    call("context", "set", "shared", "bootstrap.servers=project:1", "--project")
    call("context", "set", "other", "bootstrap.servers=other:1", "--project", "--use")
    below = in_a_project / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert options_of()["bootstrap_servers"] == "other:1"
    shared = options_of("--context", "shared")
    assert shared["bootstrap_servers"] == "project:1" and "client_id" not in shared
    told = call("context", "use", "shared").stderr
    assert f"here other is used nevertheless, because of {in_a_project / 'kafkalite.toml'}: current-context" in told


def test_precedence(in_a_project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert options_of() == {
        "bootstrap_servers": "localhost:9092",
        "request_timeout_ms": 30_000,
        "zookeeper": "localhost:2181",
    }
    call("context", "set", "now", "bootstrap.servers=now:1", "zookeeper.connect=now:2", "client.id=now", "--use")
    call("context", "set", "named", "bootstrap.servers=named:1", "zookeeper.connect=named:2")
    call("context", "set", "variable", "bootstrap.servers=variable:1")

    def found(*arguments: str) -> tuple[str, str]:
        options = options_of(*arguments)
        return options["bootstrap_servers"], options["zookeeper"]

    assert found() == ("now:1", "now:2")
    monkeypatch.setenv("KAFKALITE_CONTEXT", "variable")
    assert found() == ("variable:1", "localhost:2181")
    monkeypatch.setenv("KAFKALITE_BOOTSTRAP_SERVERS", "environment:1")
    monkeypatch.setenv("KAFKALITE_ZOOKEEPER", "environment:2")
    assert found() == ("environment:1", "environment:2")
    named = ("--context", "named")
    assert found(*named) == ("named:1", "named:2")
    properties = in_a_project / "client.properties"
    properties.write_text("bootstrap.servers=file:1\nzookeeper.connect=file:2\n")
    in_file = (*named, "--command-config", str(properties))
    assert found(*in_file) == ("file:1", "file:2")
    overridden = (*in_file, "-X", "bootstrap.servers=override:1", "-X", "zookeeper.connect=override:2")
    assert found(*overridden) == ("override:1", "override:2")
    assert found("-b", "option:1", *overridden, "-z", "option:2") == ("option:1", "option:2")


def test_each_client_gets_its_own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    call("context", "set", "a", "linger.ms=7", "max.poll.records=9", "retry.backoff.ms=11", "--use")
    assert options_of("--client", "Producer")["linger_ms"] == 7
    consumer = options_of("--client", "Consumer")
    assert (consumer["max_poll_records"], consumer["retry_backoff_ms"], "linger_ms" in consumer) == (9, 11, False)
    assert "linger_ms" not in options_of()
    monkeypatch.setenv("KAFKALITE_LINGER_MS", "8")
    assert options_of("--client", "Producer")["linger_ms"] == 8


def test_the_timeout_gives_way_unless_it_is_given() -> None:
    assert options_of("-X", "request.timeout.ms=5")["request_timeout_ms"] == 5
    assert options_of("-X", "request.timeout.ms=5", "--timeout", "2")["request_timeout_ms"] == 2000


def test_errors_name_file_and_key(own_contexts: Path, in_a_project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "-X: nonsense: no client has" in refusal("-X", "nonsense=1")
    assert "write it as key=value" in refusal("-X", "nonsense")
    assert "-X: request.timeout.ms is 'soon', not a number" in refusal("-X", "request.timeout.ms=soon")
    own_contexts.write_text("[contexts.a]\nbootstrap.server = 'x:1'\n")
    assert f"{own_contexts}: context a: bootstrap.server: no client has" in refusal("--context", "a")
    assert "--context: no context b in" in refusal("--context", "b")
    monkeypatch.setenv("KAFKALITE_CONTEXT", "c")
    assert "KAFKALITE_CONTEXT: no context c in" in refusal()
    assert "there are a" in refusal()


def test_files_for_javas_tools(in_a_project: Path) -> None:
    properties = in_a_project / "client.properties"
    properties.write_text("key.serializer=org.example.S\nclient.id=tool\n")
    result = CliRunner().invoke(probe, ["--command-config", str(properties)])
    assert json.loads(result.stdout)["client_id"] == "tool"
    assert result.stderr == f"{properties}: key.serializer is not known and has no effect\n"
    properties.write_text("sasl.unheard.of=x\n")
    assert f"{properties}: sasl.unheard.of: no client has" in refusal("--command-config", str(properties))
    assert "Cannot read the settings file" in refusal("--command-config", str(in_a_project / "absent"))


def test_secrets_are_hidden(own_contexts: Path) -> None:
    own_contexts.write_text('current-context = "a"\n[contexts.a]\nsasl.password = "hush"\nssl.key.location = "k.pem"\n')
    assert "hush" not in call("context", "show").stdout
    assert "hush" in call("context", "show", "--secrets").stdout


def test_commands_are_sent_where_the_context_says(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKALITE_BOOTSTRAP_SERVERS")
    call("context", "set", "fake", "bootstrap.servers=fake:9001", "client.id=from-the-context")
    assert call("topic", "list", "--context", "fake").stdout == "t\n"
    assert call("produce", "t", "--context", "fake", "-X", "acks=1").exit_code == 0
    assert call("consume", "t", "-e", "--context", "fake", "-X", "max.poll.records=1").exit_code == 0
    assert call("topic", "list", "--context", "fake", "-X", "acks=all").exit_code == 0, "only a producer looks at it"


def test_users_without_home_and_directories_that_are_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KAFKALITE_CONFIG")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert options_of()["bootstrap_servers"] == "localhost:9092"
    refused = call("context", "set", "a", "acks=1")
    assert refused.exit_code == 2 and "set KAFKALITE_CONFIG" in refused.stderr
    monkeypatch.setenv("KAFKALITE_CONFIG", str(tmp_path / "mine.toml"))
    assert call("context", "set", "a", "acks=1").exit_code == 0
