"""Topics that somebody asked for: what the controller is asked for, and a broker that stops meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from kafkalite.broker.topic_creation import TopicCreation
from kafkalite.config.broker import BrokerConfig, LiveConfig
from kafkalite.errors import ErrorCode
from kafkalite.portions import Portions
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TRANSACTIONS_TOPIC


class SilentController:
    """A channel to a controller that never answers."""

    async def request(self, request: Any, *, deadline_s: float) -> Any:
        await asyncio.Event().wait()


def test_a_client_is_told_that_the_controller_refused() -> None:
    """As where ZooKeeper's list of topics would get too long; the reason is in the controller's log."""

    class Metadata:
        brokers = (1,)

    class RefusingController:
        async def request(self, request: Any, *, deadline_s: float) -> Any:
            m = messages.create_topics_response
            refused = m.CreatableTopicResult(name=request.topics[0].name, error_code=ErrorCode.POLICY_VIOLATION)
            return m.CreateTopicsResponse(topics=[refused])

    async def scenario() -> dict[str, ErrorCode]:
        creation = TopicCreation(
            LiveConfig(BrokerConfig(broker_id=1)),
            cast(Any, Metadata()),
            cast(Any, RefusingController()),
            cast(Any, None),
        )
        return await creation.create_missing(["t"], True, Portions())

    assert virtual_time.run(scenario()) == {"t": ErrorCode.POLICY_VIOLATION}


def test_a_creation_without_an_answer_ends_with_its_broker() -> None:
    """A life found it: the broker had stopped, and its request for `__transaction_state` was still waited for."""

    class Metadata:
        brokers = (1, 2, 3)

    async def scenario() -> None:
        creation = TopicCreation(
            LiveConfig(BrokerConfig(broker_id=1)), cast(Any, Metadata()), cast(Any, SilentController()), cast(Any, None)
        )
        asking = asyncio.ensure_future(creation.create_internal(TRANSACTIONS_TOPIC))
        await virtual_time.settle()
        await creation.close()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert asyncio.all_tasks() == {asyncio.current_task()}

    virtual_time.run(scenario())


def test_a_controller_that_knows_no_defaults_is_given_numbers() -> None:
    """Apache Kafka before 2.4 (KIP-464) refuses -1."""
    asked: list[tuple[str, int, int]] = []

    class Controller:
        async def request(self, request: Any, *, deadline_s: float) -> Any:
            asked.extend((each.name, each.num_partitions, each.replication_factor) for each in request.topics)
            return messages.create_topics_response.CreateTopicsResponse()

    class Metadata:
        brokers = (1, 2, 3)

    async def scenario() -> None:
        config = BrokerConfig(broker_id=1, num_partitions=5, default_replication_factor=2)
        creation = TopicCreation(LiveConfig(config), cast(Any, Metadata()), cast(Any, Controller()), cast(Any, None))
        await creation.create_missing(["t"], True, Portions())
        await creation.create_internal(TRANSACTIONS_TOPIC)

    virtual_time.run(scenario())
    assert asked == [("t", 5, 2), (TRANSACTIONS_TOPIC, 50, 3)]
