"""Asks the others that watch a broker whether they hear it, before its session is ended.

What brokers tell each other reaches their neighbours only, so whoever is in one half of a cluster may not know that there is another one,
in which its victim is heard. Who has just said that it does not hear the victim need not be asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from enum import Enum
from typing import TYPE_CHECKING, Final

from kafkalite.broker.failure_detection.evidence import NO_SESSION
from kafkalite.broker.failure_detection.heartbeats import Sender, make_heartbeat, open_connection
from kafkalite.errors import ErrorCode
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

    async def confirm(
        self,
        broker: BrokerId,
        broker_epoch: int,
        *,
        watchers: Collection[BrokerId],
        others: Collection[BrokerId],
        deniers: Collection[BrokerId],
    ) -> bool:
        """True if nobody who is asked hears a broker in this registration, and enough say so.

        That are more than half of its other `watchers`; or, where these are lost with it, of the whole cluster: both brokers and all
        `others`.
        `deniers` have said so already.
        """
        heard, denied, counted = await self._count(broker, broker_epoch, watchers, deniers)
        if heard or 2 * denied > counted:
            return not heard
        heard, more_denied, more_counted = await self._count(
            broker, broker_epoch, [each for each in others if each not in watchers], deniers
        )
        in_cluster = 2 + counted + more_counted  # with this broker and that one
        return not heard and 2 * (1 + denied + more_denied) > in_cluster

    async def _count(
        self, broker: BrokerId, broker_epoch: int, asked: Collection[BrokerId], deniers: Collection[BrokerId]
    ) -> tuple[bool, int, int]:
        """Return whether one of `asked` hears a broker, how many say that they do not, and how many count."""
        unknown = [each for each in asked if each not in deniers]
        answers = await asyncio.gather(*(self._ask(each, broker, broker_epoch) for each in unknown))
        counted = [each for each in answers if each is not _Answer.NOT_OURS]
        known = len(asked) - len(unknown)
        return _Answer.HEARD in counted, known + counted.count(_Answer.NOT_HEARD), known + len(counted)

    async def _ask(self, watcher: BrokerId, broker: BrokerId, broker_epoch: int) -> _Answer:
        endpoint = self._sender.endpoint_of(watcher)
        if endpoint is None:
            return _Answer.NOT_REACHED
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                connection = await open_connection(self._sender, endpoint, _TIMEOUT_S)
                try:
                    request = make_heartbeat(self._sender, NO_SESSION, with_password=False)
                    version = connection.version_of(ApiKey.PEER_HEARTBEAT)
                    response = await connection.request(request, version, _TIMEOUT_S)
                finally:
                    connection.close()
        except ValueError:
            return _Answer.NOT_OURS
        except (OSError, TimeoutError) as problem:
            logger.debug("broker %d could not be asked about broker %d: %s", watcher, broker, problem)
            return _Answer.NOT_REACHED
        if response.error_code != ErrorCode.NONE:
            return _Answer.NOT_REACHED
        is_heard = any(
            each.broker_id == broker and each.broker_epoch == broker_epoch and each.is_heard
            for each in response.neighbours
        )
        return _Answer.HEARD if is_heard else _Answer.NOT_HEARD
