"""Topics that are created because somebody asked for them (auto.create.topics.enable), by way of the controller.

Any broker may be asked; the controller creates. Each missing topic has at most one creation in flight on this broker.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kafkalite.broker.controller_channel import ControllerChannel
from kafkalite.broker.metadata_cache import MetadataCache
from kafkalite.controller.topics.topic_validation import name_error
from kafkalite.errors import ErrorCode
from kafkalite.lifecycle import end_tasks
from kafkalite.portions import Portions
from kafkalite.protocol import messages
from kafkalite.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from zk import paths
from zk.store import NoNodeError, Store
from zk.znodes import MalformedZnodeError, TopicAssignment

if TYPE_CHECKING:
    from kafkalite.config.broker import LiveConfig

_WAIT_S = 1.0
"""Time for which a metadata request waits for a topic that it created, before the client is to retry."""

_TOPICS_TOGETHER = 500
"""Topics in one request to the controller."""

_STILL_ELECTING = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT})


def _still_electing(code: ErrorCode) -> ErrorCode:
    return ErrorCode.LEADER_NOT_AVAILABLE if code in _STILL_ELECTING else code


class TopicCreation:
    """Creation of topics that clients or brokers need and that do not exist; each topic is requested once at a time."""

    def __init__(
        self,
        config: LiveConfig,
        metadata: MetadataCache,
        channel: ControllerChannel,
        store: Store,
    ) -> None:
        self._config, self._metadata, self._channel, self._store = config, metadata, channel, store
        self._in_flight: dict[str, asyncio.Task[dict[str, ErrorCode]]] = {}

    async def create_missing(self, names: list[str], may_create: bool, portions: Portions) -> dict[str, ErrorCode]:
        """Return the error code for each topic that this broker does not know."""
        codes: dict[str, ErrorCode] = {}
        creatable: list[str] = []
        pace = portions.pace()
        for name in names:
            await pace.unit()
            bad = name_error(name)
            if bad:
                codes[name] = bad
            elif not (may_create and self._config.current.auto_create_topics_enable):
                codes[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                creatable.append(name)
        for first in range(0, len(creatable), _TOPICS_TOGETHER):
            codes |= await self._create_topics(creatable[first : first + _TOPICS_TOGETHER])
        return codes

    async def create_internal(self, name: str) -> ErrorCode:
        """Make an internal topic, whatever auto.create.topics.enable says."""
        return (await self._create_topics([name]))[name]

    async def close(self) -> None:
        """Cancel the creations in flight here; the controller goes on with what was requested."""
        await end_tasks(dict.fromkeys(self._in_flight.values()))

    async def partition_count(self, topic: str) -> int:
        """Return the number of a topic's partitions in ZooKeeper, 0 if it is absent or unreadable."""
        try:
            data, _ = await self._store.read(paths.topic(topic))
            return len(TopicAssignment.decode(data).partitions)
        except (NoNodeError, MalformedZnodeError):  # the controller names a malformed one
            return 0

    async def _create_topics(self, names: list[str]) -> dict[str, ErrorCode]:
        """Return the outcome of each creation; those in flight already share the outcome of the earlier request."""
        begun = [name for name in names if name not in self._in_flight]
        if begun:
            self._start_creation(begun)
        tasks = {name: self._in_flight[name] for name in names}
        return {name: (await asyncio.shield(task))[name] for name, task in tasks.items()}

    def _start_creation(self, names: list[str]) -> None:
        task = asyncio.get_running_loop().create_task(self._create(names))
        self._in_flight |= dict.fromkeys(names, task)

        def forget_creation(_: object) -> None:
            for name in names:
                del self._in_flight[name]

        task.add_done_callback(forget_creation)

    async def _create(self, names: list[str]) -> dict[str, ErrorCode]:
        """Send one request for all topics, as Kafka's AutoTopicCreationManager does."""
        m = messages.create_topics_request
        request = m.CreateTopicsRequest(
            topics=[self._describe_topic(name) for name in names],
            timeout_ms=int(_WAIT_S * 1000),
        )
        loop = asyncio.get_running_loop()
        try:
            reply = await self._channel.request(
                request, deadline_s=loop.time() + self._config.current.request_timeout_ms / 1000
            )
        except TimeoutError:
            return dict.fromkeys(names, ErrorCode.LEADER_NOT_AVAILABLE)
        codes = {each.name: ErrorCode(each.error_code) for each in reply.topics}
        return {name: _still_electing(codes.get(name, ErrorCode.NONE)) for name in names}

    def _describe_topic(self, name: str) -> messages.create_topics_request.CreatableTopic:
        """Return the settings of a new topic: this broker's defaults, or an internal topic's own.

        They are numbers, because controllers before CreateTopics 4 (KIP-464, Apache Kafka 2.4) know of no defaults.

        Internal topics get as many replicas as there are brokers, up to offsets.topic.replication.factor and
        transaction.state.log.replication.factor: Kafka refuses to make them while there are fewer.
        """
        m, config = messages.create_topics_request, self._config.current
        if name == OFFSETS_TOPIC:
            partitions, replicas = config.offsets_topic_num_partitions, config.offsets_topic_replication_factor
            settings = {
                "compression.type": "producer",
                "cleanup.policy": "compact",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            }
        elif name == TRANSACTIONS_TOPIC:
            partitions = config.transaction_state_log_num_partitions
            replicas = config.transaction_state_log_replication_factor
            settings = {
                "unclean.leader.election.enable": "false",
                "compression.type": "uncompressed",
                "cleanup.policy": "compact",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
            }
        else:
            partitions, replicas = config.num_partitions, config.default_replication_factor
            return m.CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
        return m.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=max(1, min(replicas, len(self._metadata.brokers))),
            configs=[m.CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
        )
