"""Asks the others that watch a silent broker whether they hear it, before its session is ended.

What brokers tell each other reaches their neighbours only, so whoever is in one half of a cluster may not know that there is another one,
in which its victim is heard. A broker that refuses connections is not asked about: its host has answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Final

from kafkalite.broker.failure_detection.heartbeats import Sender, make_heartbeat, open_connection
from kafkalite.protocol.apis import ApiKey

if TYPE_CHECKING:
    from kafkalite.types import BrokerId

logger = logging.getLogger("kafkalite.broker.failure_detection")

_TIMEOUT_S: Final = 0.5


class _Answer(Enum):
    HEARD = 0
    NOT_HEARD = 1
    NOT_REACHED = 2
    NOT_OURS = 3
    """Apache Kafka's brokers watch nobody."""


class Watchers:
    """Asks on connections of their own, which are closed afterwards."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def confirm_silence(self, broker: BrokerId, broker_epoch: int, watchers: Iterable[BrokerId]) -> bool:
        """True if none of `watchers` hears a broker in this registration, and more than half of them have said so."""
        answers = await asyncio.gather(*(self._ask(each, broker, broker_epoch) for each in watchers))
        counted = [each for each in answers if each is not _Answer.NOT_OURS]
        return _Answer.HEARD not in counted and 2 * counted.count(_Answer.NOT_HEARD) > len(counted)

    async def _ask(self, watcher: BrokerId, broker: BrokerId, broker_epoch: int) -> _Answer:
        endpoint = self._sender.endpoint_of(watcher)
        if endpoint is None:
            return _Answer.NOT_REACHED
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                connection = await open_connection(self._sender, endpoint, _TIMEOUT_S)
                try:
                    request = make_heartbeat(self._sender, self._sender.store.session_id, with_password=False)
                    version = connection.version_of(ApiKey.PEER_HEARTBEAT)
                    response = await connection.request(request, version, _TIMEOUT_S)
                finally:
                    connection.close()
        except ValueError:
            return _Answer.NOT_OURS
        except (OSError, TimeoutError) as problem:
            logger.debug("broker %d could not be asked about broker %d: %s", watcher, broker, problem)
            return _Answer.NOT_REACHED
        is_heard = any(
            each.broker_id == broker and each.broker_epoch == broker_epoch and each.is_heard
            for each in response.neighbours
        )
        return _Answer.HEARD if is_heard else _Answer.NOT_HEARD
