"""Brokers whose answers lack what was asked for."""

from __future__ import annotations

import pytest

from kafkalite.client.admin.admin import Admin
from kafkalite.client.admin.configs import ConfigChange, ConfigResource
from kafkalite.client.admin.topics import NewTopic
from kafkalite.client.errors import ClientError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import FakeCluster
from tests.unit.client.hostile_broker import REQUESTS_A_SECOND, Always, metadata_answer, run


@pytest.mark.parametrize("call", ["create", "delete", "describe", "configs", "alter", "records", "group"])
def test_answers_that_lack_what_was_asked_for_are_errors(call: str) -> None:
    m = messages

    async def scenario(cluster: FakeCluster) -> None:
        cluster.script[ApiKey.CREATE_TOPICS] = Always(m.create_topics_response.CreateTopicsResponse())
        cluster.script[ApiKey.DELETE_TOPICS] = Always(m.delete_topics_response.DeleteTopicsResponse())
        cluster.script[ApiKey.DESCRIBE_CONFIGS] = Always(m.describe_configs_response.DescribeConfigsResponse())
        cluster.script[ApiKey.DELETE_RECORDS] = Always(m.delete_records_response.DeleteRecordsResponse())
        altered = m.incremental_alter_configs_response.IncrementalAlterConfigsResponse()
        cluster.script[ApiKey.INCREMENTAL_ALTER_CONFIGS] = Always(altered)
        cluster.script[ApiKey.FIND_COORDINATOR] = Always(m.find_coordinator_response.FindCoordinatorResponse())
        async with Admin(bootstrap_servers="fake:9001", opener=cluster.open, default_api_timeout_ms=3000) as admin:
            empty = metadata_answer()
            empty.topics = []
            if call != "records":
                cluster.script[ApiKey.METADATA] = Always(empty)
            calls = {
                "create": lambda: admin.create_topics([NewTopic("n", 1)]),
                "delete": lambda: admin.delete_topics(["t"]),
                "describe": lambda: admin.describe_topics(["t"]),
                "configs": lambda: admin.describe_configs("topic", "t"),
                "alter": lambda: admin.incremental_alter_configs(
                    {ConfigResource("topic", "t"): [ConfigChange("retention.ms", "set", "1")]}
                ),
                "records": lambda: admin.delete_records({TopicPartition("t", 0): 1}),
                "group": lambda: admin.describe_groups(["g"]),
            }
            before = len(cluster.requests)
            with pytest.raises(ClientError):
                await calls[call]()
            assert len(cluster.requests) - before < 3 * REQUESTS_A_SECOND

    run(scenario)
