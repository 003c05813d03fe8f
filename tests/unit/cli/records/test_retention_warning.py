"""Who writes records with times of years ago is told that the topic's retention takes them."""

from __future__ import annotations

import time

import pytest

from kafkalite.cli.records.retention_warning import retention_warning
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.unit.cli.test_commands import call
from tests.unit.client.fake_broker import FakeCluster

NOW_MS = 1_700_000_000_000
WEEK_MS = 7 * 86_400_000
DEFAULTS = {"retention.ms": str(WEEK_MS), "message.timestamp.type": "CreateTime", "cleanup.policy": "delete"}


def test_old_records_are_warned_of() -> None:
    assert retention_warning("flights", 1_371_254_400_000, DEFAULTS, NOW_MS) == (
        "warning: records have timestamps from 2013-06-15T00:00:00Z on, and flights keeps records for retention.ms=604800000 after "
        "theirs: brokers may delete them soon; keep them with kafkalite config set retention.ms=-1 --topic flights"
    )


@pytest.mark.parametrize(
    ("oldest_ms", "changed"),
    [
        (NOW_MS - WEEK_MS, {}),
        (2**63 - 1, {}),
        (-1, {}),
        (0, {"retention.ms": "-1"}),
        (0, {"message.timestamp.type": "LogAppendTime"}),
        (0, {"cleanup.policy": "compact"}),
        (0, {"retention.ms": "soon"}),
    ],
)
def test_what_retention_leaves_is_not(oldest_ms: int, changed: dict[str, str]) -> None:
    assert retention_warning("t", oldest_ms, {**DEFAULTS, **changed}, NOW_MS) is None


def described(settings: dict[str, str]) -> object:
    m = messages.describe_configs_response
    configs = [m.DescribeConfigsResourceResult(name=name, value=value) for name, value in settings.items()]
    found = m.DescribeConfigsResult(resource_type=2, resource_name="t", configs=configs)
    return m.DescribeConfigsResponse(results=[found])


def test_produce_warns_at_its_end(cluster: FakeCluster) -> None:
    cluster.script[ApiKey.DESCRIBE_CONFIGS] += [described(DEFAULTS), described(DEFAULTS)]
    line = '{"value": "v", "timestamp": %d}\n'
    result = call("produce", "t", "-i", "jsonl", stdin=(line % 1_371_254_400_000 + line % 1_371_254_400_001).encode())
    assert result.exit_code == 0
    assert "2 records written to t\nwarning: records have timestamps from 2013-06-15T00:00:00Z on" in result.stderr
    now_ms = int(time.time() * 1000)
    assert "warning" not in call("produce", "t", "-i", "jsonl", stdin=(line % now_ms).encode()).stderr


def test_without_times_of_their_own_nothing_is_asked(cluster: FakeCluster) -> None:
    result = call("produce", "t", stdin=b"one\n")
    assert result.exit_code == 0 and "warning" not in result.stderr
    assert not cluster.requests_of(ApiKey.DESCRIBE_CONFIGS)
