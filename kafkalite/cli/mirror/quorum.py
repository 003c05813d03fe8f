"""The mirror as a broker of the target: its registration with the KRaft controllers, its heartbeats, and what only a broker may ask them.

The metadata log is not read: topics and leaders are asked for by Metadata, and the epoch of a partition is searched for
(`partition_epochs`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkalite import NAME
from kafkalite.cli.mirror.partition_epochs import HandOver, guess_again
from kafkalite.client.errors import ClientError, error_of
from kafkalite.errors import ErrorCode
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey

if TYPE_CHECKING:
    from kafkalite.protocol.messages import Message, Request
    from kafkalite.types import TopicPartition

ResponseT = TypeVar("ResponseT", bound="Message")
Open = Callable[[str, int], Awaitable[Connection]]

_ANSWER_S: Final = 10.0
_PAUSE_S: Final = 0.5
_GUESSES: Final = 64
"""A search that doubles and halves finds any partition epoch in so many."""
_REGISTRATION_S: Final = 60.0
"""Longer than a session of a broker that died with another incarnation (broker.session.timeout.ms, 9 s)."""
_CAUGHT_UP: Final = 1 << 62
"""A metadata offset behind every other: a broker is unfenced when it has reached the record of its registration, whose offset a controller
does not tell when the same incarnation registers again."""


@dataclass(frozen=True, slots=True)
class Registration:
    """Who the mirror is to the controllers, and where followers reach it."""

    broker_id: int
    incarnation: bytes
    listener_name: str
    host: str
    port: int
    security_protocol: int = 0
    rack: str | None = None


class Quorum:
    """The active controller of the target, found among `servers`, and the session of the mirror there."""

    def __init__(self, servers: Sequence[tuple[str, int]], open_connection: Open, who: Registration) -> None:
        self._servers, self._open, self._who = list(servers), open_connection, who
        self._connection: Connection | None = None
        self._cluster_id = ""
        self.broker_epoch = -1
        self.is_fenced = True

    async def register(self, cluster_id: str) -> None:
        """Register the mirror as a broker. Raises ClientError, TimeoutError."""
        self._cluster_id = cluster_id
        m = messages.broker_registration_request
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + _REGISTRATION_S
        while True:
            request = m.BrokerRegistrationRequest(
                broker_id=self._who.broker_id,
                cluster_id=cluster_id,
                incarnation_id=self._who.incarnation,
                listeners=[
                    m.Listener(
                        name=self._who.listener_name,
                        host=self._who.host,
                        port=self._who.port,
                        security_protocol=self._who.security_protocol,
                    )
                ],
                features=await self._find_features(),
                rack=self._who.rack,
                log_dirs=[self._who.incarnation],  # any id that no other broker has; it has no directory
                previous_broker_epoch=self.broker_epoch,
            )
            response = await self._ask(request)
            if response.error_code != ErrorCode.DUPLICATE_BROKER_REGISTRATION or loop.time() > deadline_s:
                break
            await asyncio.sleep(_PAUSE_S)
        _raise(response, f"registering broker {self._who.broker_id}")
        self.broker_epoch = response.broker_epoch

    async def _find_features(self) -> list[messages.broker_registration_request.Feature]:
        """Return the features of the controller: a broker has to support what is finalized."""
        request = messages.api_versions_request.ApiVersionsRequest(
            client_software_name=NAME, client_software_version="mirror"
        )
        response = await self._ask(request)
        feature = messages.broker_registration_request.Feature
        return [
            feature(name=each.name, min_supported_version=each.min_version, max_supported_version=each.max_version)
            for each in response.supported_features
        ]

    async def send_heartbeat(self, *, fence: bool = False, shut_down: bool = False) -> None:
        """Keep the session, and be a leader again or (`fence`) none. A session that is over is begun again. Raises ClientError, OSError."""
        request = messages.broker_heartbeat_request.BrokerHeartbeatRequest(
            broker_id=self._who.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=_CAUGHT_UP,
            want_fence=fence,
            want_shut_down=shut_down,
        )
        response = await self._ask(request)
        if response.error_code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            await self.register(self._cluster_id)
            return
        _raise(response, "heartbeat")
        self.is_fenced = response.is_fenced

    async def raise_epochs(self, fencings: int) -> None:
        """Be fenced and unfenced so often; each raises the leader epochs of all mirrored partitions. Raises ClientError, OSError."""
        for _ in range(fencings):
            await self.send_heartbeat(fence=True)
            await self.send_heartbeat()

    async def allocate_producer_ids(self) -> int:
        """Return the end of a block of producer ids that the target gives to nobody now. Raises ClientError, OSError."""
        request = messages.allocate_producer_ids_request.AllocateProducerIdsRequest(
            broker_id=self._who.broker_id, broker_epoch=self.broker_epoch
        )
        response = await self._ask(request)
        _raise(response, "allocating producer ids")
        return response.producer_id_start + response.producer_id_len

    async def hand_over(
        self, partitions: Sequence[HandOver], broker_epochs: Mapping[int, int]
    ) -> dict[TopicPartition, int]:
        """Hand partitions over to their followers, trying for the epochs of the partitions; return the error codes of those that failed.

        Raises ClientError, OSError.
        """
        left = list(partitions)
        failed: dict[TopicPartition, int] = {}
        for _ in range(_GUESSES):
            if not left:
                break
            left, now_failed = guess_again(await self._alter(left, broker_epochs))
            failed |= now_failed
        return failed

    async def _alter(self, partitions: Sequence[HandOver], broker_epochs: Mapping[int, int]) -> dict[HandOver, int]:
        """Make all followers of partitions in-sync replicas, which ends their reassignment; the error code of each.

        Raises ClientError, OSError when the request as a whole fails.
        """
        m = messages.alter_partition_request
        topics: dict[bytes, list[Any]] = {}
        for each in partitions:
            isr = [m.BrokerState(broker_id=self._who.broker_id, broker_epoch=self.broker_epoch)]
            isr += [m.BrokerState(broker_id=broker, broker_epoch=broker_epochs[broker]) for broker in each.followers]
            topics.setdefault(each.topic_id, []).append(
                m.PartitionData(
                    partition_index=each.place.partition,
                    leader_epoch=each.leader_epoch,
                    new_isr_with_epochs=isr,
                    partition_epoch=each.guess,
                )
            )
        request = m.AlterPartitionRequest(
            broker_id=self._who.broker_id,
            broker_epoch=self.broker_epoch,
            topics=[m.TopicData(topic_id=topic_id, partitions=some) for topic_id, some in topics.items()],
        )
        response = await self._ask(request)
        _raise(response, "handing partitions over")
        codes = {
            (topic.topic_id, each.partition_index): int(each.error_code)
            for topic in response.topics
            for each in topic.partitions
        }
        return {each: codes[each.topic_id, each.place.partition] for each in partitions}

    async def _ask(self, request: Request[ResponseT]) -> ResponseT:
        """Return the response of the active controller. Raises ClientError when none answers for one."""
        problem: Exception | None = None
        for _ in range(2 * len(self._servers)):
            try:
                connection = await self._connect()
                response = await connection.request(request, connection.version_of(request.API.key), _ANSWER_S)
                if getattr(response, "error_code", 0) != ErrorCode.NOT_CONTROLLER:
                    return response
                problem = error_of(ErrorCode.NOT_CONTROLLER, connection.address)
            except (OSError, TimeoutError) as failed:
                problem = failed
            except ValueError as failed:
                raise ClientError(ErrorCode.UNSUPPORTED_VERSION, f"{failed}; is it a controller's port?") from None
            self._try_next()
        raise ClientError(ErrorCode.NOT_CONTROLLER, f"no controller of the target answers: {problem}")

    async def _connect(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = await self._open(*self._servers[0])
            await self._connection.negotiate(_ANSWER_S)
            if ApiKey.BROKER_REGISTRATION not in self._connection.versions:
                raise ValueError(f"{self._connection.address} does not register brokers")
        return self._connection

    def _try_next(self) -> None:
        self.close()
        self._servers.append(self._servers.pop(0))

    def close(self) -> None:
        """Close the connection; the session ends by itself."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _raise(response: Any, what: str) -> None:
    if response.error_code:
        raise error_of(response.error_code, what)
