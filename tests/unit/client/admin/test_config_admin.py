"""Settings of topics and brokers: who is asked what, and what becomes of the answers."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.client import AdminError, ConfigChange, ConfigEntry, ConfigResource, ConfigSynonym
from kafkalite.client.errors import ClientError
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.unit.client.admin.test_partition_admin import ask
from tests.unit.client.fake_broker import FakeCluster

TOPIC, BROKER_2, ALL = ConfigResource("topic", "t"), ConfigResource("broker", "2"), ConfigResource("broker", "")


def described(*settings: tuple[str, str], code: int = 0) -> Any:
    m = messages.describe_configs_response
    configs = [
        m.DescribeConfigsResourceResult(
            name=name,
            value=value,
            config_source=1,
            synonyms=[
                m.DescribeConfigsSynonym(name=name, value=value, source=1),
                m.DescribeConfigsSynonym(name=f"log.{name}", value="0", source=5),
            ],
        )
        for name, value in settings
    ]
    return m.DescribeConfigsResult(error_code=code, error_message="why" if code else None, configs=configs)


def descriptions(*results: Any) -> Any:
    return messages.describe_configs_response.DescribeConfigsResponse(results=list(results))


def alterations(*codes: int) -> Any:
    m = messages.incremental_alter_configs_response
    results = [m.AlterConfigsResourceResponse(error_code=code, error_message="why") for code in codes]
    return m.IncrementalAlterConfigsResponse(responses=results)


def askings(cluster: FakeCluster, key: ApiKey) -> list[tuple[int, list[tuple[int, str]]]]:
    return [
        (broker, [(each.resource_type, each.resource_name) for each in request.resources])
        for broker, request in cluster.requests
        if request.API.key == key
    ]


def test_each_broker_is_asked_for_itself_and_any_for_the_rest() -> None:
    cluster = FakeCluster({"t": 1})

    def answer(_: int, request: Any) -> Any:
        return descriptions(*(described((each.resource_name or "default", "1")) for each in request.resources))

    cluster.script[ApiKey.DESCRIBE_CONFIGS].extend([answer, answer])
    found = ask(cluster, lambda admin: admin.describe_resource_configs([TOPIC, BROKER_2, ALL], synonyms=True))
    assert list(found) == [TOPIC, BROKER_2, ALL]
    assert found[BROKER_2]["2"] == ConfigEntry(
        *("2", "1", "DYNAMIC_TOPIC_CONFIG", False, False, None),
        (ConfigSynonym("2", "1", "DYNAMIC_TOPIC_CONFIG"), ConfigSynonym("log.2", "0", "DEFAULT_CONFIG")),
    )
    assert found[ALL]["default"].to_dict()["synonyms"][1] == {
        "name": "log.default",
        "value": "0",
        "source": "DEFAULT_CONFIG",
    }
    any_broker, second = sorted(askings(cluster, ApiKey.DESCRIBE_CONFIGS), key=lambda each: -len(each[1]))
    assert any_broker[1] == [(2, "t"), (4, "")] and second == (2, [(4, "2")])


def test_a_topic_that_is_not_there_is_told_at_once() -> None:
    cluster = FakeCluster({"t": 1})
    gone = descriptions(described(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    cluster.script[ApiKey.DESCRIBE_CONFIGS].append(gone)
    with pytest.raises(ClientError, match="settings of topic t: why") as caught:
        ask(cluster, lambda admin: admin.describe_configs("topic", "t"))
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(cluster.requests_of(ApiKey.DESCRIBE_CONFIGS)) == 1, "no retry makes a topic"


def test_settings_are_changed_one_by_one() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.script[ApiKey.INCREMENTAL_ALTER_CONFIGS].extend([alterations(0), alterations(0)])
    changes = {
        TOPIC: [ConfigChange("a", "set", "1"), ConfigChange("b", "delete"), ConfigChange("c", "append", "x,y")],
        BROKER_2: [ConfigChange("d", "subtract", "z")],
    }
    ask(cluster, lambda admin: admin.incremental_alter_configs(changes, validate_only=True))
    requests = cluster.requests_of(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    assert all(each.validate_only for each in requests)
    sent = {
        (each.resource_type, each.resource_name): [(c.name, c.config_operation, c.value) for c in each.configs]
        for request in requests
        for each in request.resources
    }
    assert sent == {(2, "t"): [("a", 0, "1"), ("b", 1, None), ("c", 2, "x,y")], (4, "2"): [("d", 3, "z")]}
    assert (2, [(4, "2")]) in askings(cluster, ApiKey.INCREMENTAL_ALTER_CONFIGS)


def test_what_failed_is_named_and_the_rest_is_done() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.script[ApiKey.INCREMENTAL_ALTER_CONFIGS].append(alterations(ErrorCode.INVALID_CONFIG, 0))
    changes = {TOPIC: [ConfigChange("a", "set", "x")], ALL: [ConfigChange("b", "set", "1")]}
    with pytest.raises(AdminError) as caught:
        ask(cluster, lambda admin: admin.incremental_alter_configs(changes))
    assert list(caught.value.failures) == ["topic t"] and caught.value.code is ErrorCode.INVALID_CONFIG


def test_a_broker_that_is_not_there_is_named() -> None:
    cluster = FakeCluster({"t": 1})
    with pytest.raises(AdminError) as caught:
        ask(cluster, lambda admin: admin.describe_resource_configs([ConfigResource("broker", "9")]))
    assert list(caught.value.failures) == ["broker 9"] and "broker 9 is not there" in str(caught.value)
    with pytest.raises(ValueError, match="no resource type"):
        ask(cluster, lambda admin: admin.describe_configs("planet", "earth"))
