"""Our client against our broker."""

from __future__ import annotations

import pytest

from tests.wire import our_client
from tests.wire.our_client import TopicMaker

pytestmark = pytest.mark.wire


@pytest.mark.parametrize("name", our_client.SCENARIOS)
def test_our_client(name: str, servers: str, make_topic: TopicMaker) -> None:
    our_client.SCENARIOS[name](servers, make_topic)


@pytest.mark.parametrize("strategy", our_client.STRATEGIES)
def test_a_group_shares_and_hands_over(strategy: str, servers: str, make_topic: TopicMaker) -> None:
    our_client.a_group_shares_and_hands_over(servers, make_topic, strategy)
