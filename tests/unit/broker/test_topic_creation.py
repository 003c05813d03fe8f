"""Topics that somebody asked for while their broker stops."""

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
