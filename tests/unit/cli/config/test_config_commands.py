"""`kafkalite config`: whose settings are meant, what is sent, and what is shown of secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkalite.cli.config.targets import targets_of
from kafkalite.cli.main import main
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.unit.client.fake_broker import FakeCluster

NOBODY: dict[str, Any] = {
    **dict.fromkeys(("topics", "brokers", "users", "clients", "ips"), ()),
    **dict.fromkeys(("broker_defaults", "user_defaults", "client_defaults", "ip_defaults"), False),
}


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["config", *arguments])


def entities(**named: Any) -> list[str]:
    return [str(each) for each in targets_of(**{**NOBODY, **named}).entities()]


def test_users_and_clients_are_meant_together() -> None:
    assert entities(users=("a", "b"), client_defaults=True) == [
        "user a, default client-id",
        "user b, default client-id",
    ]
    assert entities(users=("a",), user_defaults=True) == ["user a", "default user"]
    assert entities(clients=("c",), ips=("::1",), ip_defaults=True) == ["client-id c", "ip ::1", "default ip"]


def test_topics_brokers_and_the_default_of_all() -> None:
    found = targets_of(**{**NOBODY, "topics": ("t",), "brokers": ("1",), "broker_defaults": True})
    assert [str(each) for each in found.resources()] == ["topic t", "broker 1", "all brokers"]


def described(_: int, request: Any) -> Any:
    m = messages.describe_configs_response
    secret = m.DescribeConfigsResourceResult(name="ssl.key.password", value=None, is_sensitive=True, config_source=2)
    results = [m.DescribeConfigsResult(configs=[secret]) for _ in request.resources]
    return m.DescribeConfigsResponse(results=results)


def altered(_: int, request: Any) -> Any:
    m = messages.incremental_alter_configs_response
    return m.IncrementalAlterConfigsResponse(responses=[m.AlterConfigsResourceResponse() for _ in request.resources])


@pytest.mark.parametrize("dry_run", [False, True])
def test_secrets_are_sent_and_not_shown(cluster: FakeCluster, dry_run: bool) -> None:
    cluster.script[ApiKey.DESCRIBE_CONFIGS].append(described)
    cluster.script[ApiKey.INCREMENTAL_ALTER_CONFIGS].append(altered)
    options = ["--dry-run"] if dry_run else []
    result = call("set", "ssl.key.password=hunter2", "--broker", "1", "-o", "json", *options)
    assert result.exit_code == 0 and "hunter2" not in result.output
    (row,) = json.loads(result.stdout)
    assert row["value"] is None and row["before"] is None
    (request,) = cluster.requests_of(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    assert request.resources[0].configs[0].value == "hunter2" and request.validate_only == dry_run
