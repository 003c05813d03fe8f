"""Topics that somebody asked for while their broker stops."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from kafkalite.broker.topic_creation import TopicCreation
from kafkalite.config.broker import BrokerConfig, LiveConfig
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TRANSACTIONS_TOPIC


class SilentController:
    """A channel to a controller that never answers."""

    async def request(self, request: Any, *, deadline_s: float) -> Any:
        await asyncio.Event().wait()


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
