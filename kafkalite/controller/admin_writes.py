"""Creating, enlarging and deleting topics: the requests' checks (`topic_rules`) followed by writes that any broker may do.

These writes are not fenced: the controller learns of them by its watches, wherever they come from. So a broker that is
not the controller can create a topic itself (auto.create.topics.enable), and old tools do the same. The topic's
config is written before its assignment, because the assignment is what makes the topic exist.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafkalite.config.broker import LiveConfig
from kafkalite.config.dynamic import BrokerSources, describe_topic
from kafkalite.controller.settings import ControllerSettings
from kafkalite.controller.topic_rules import Racks, TopicNames, TopicPlan, plan_partitions, plan_topic
from kafkalite.controller.topic_znodes import random_topic_id
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.types import NO_TOPIC_ID, topic_id_to_text
from zk import paths
from zk.store import BadVersionError, NodeExistsError, NoNodeError, Store
from zk.subtree import ensure_path
from zk.znodes import ConfigEntity, MalformedZnodeError, TopicAssignment

logger = logging.getLogger(__name__)

CONCURRENT_TOPICS = 64


class AdminWrites:
    """See the module. `config` is the broker's."""

    def __init__(self, store: Store, config: LiveConfig, rng: random.Random) -> None:
        self.config = config
        self._store = store
        self._rng = rng
        self._slots = asyncio.Semaphore(CONCURRENT_TOPICS)

    # -- create

    async def create_topics(self, request: Any, brokers: Racks) -> messages.create_topics_response.CreateTopicsResponse:
        """CreateTopicsResponse; the topics are in ZooKeeper, their leaders not yet elected.

        `brokers` are the live ones. Errors of single topics are in the response, messages as Kafka's.
        """
        names = await self._topic_names()
        repeated = _repeated(topic.name for topic in request.topics)
        requested = {topic.name: topic for topic in request.topics}.values()

        async def create(topic: Any) -> Any:
            try:
                if topic.name in repeated:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
                plan = plan_topic(topic, brokers, self.config.current, self._rng)
                names.check_free(plan.name)
                async with self._slots:
                    topic_id = NO_TOPIC_ID if request.validate_only else await self._write_topic(plan)
            except KafkaError as problem:
                return messages.create_topics_response.CreatableTopicResult(
                    name=topic.name, error_code=int(problem.code), error_message=str(problem)
                )
            return self._created(plan, topic_id)

        return messages.create_topics_response.CreateTopicsResponse(
            topics=list(await asyncio.gather(*map(create, requested)))
        )

    async def _topic_names(self) -> TopicNames:
        existing, marked = await asyncio.gather(self._children(paths.TOPICS), self._children(paths.DELETE_TOPICS))
        return TopicNames(existing, marked)

    async def _write_topic(self, plan: TopicPlan) -> bytes:
        """The new topic's id. KafkaError TOPIC_ALREADY_EXISTS when somebody else was faster."""
        config = self.config.current
        settings = ControllerSettings.from_config(config.broker_id, config)
        topic_id = random_topic_id(self._rng) if settings.inter_broker_protocol_version.gives_topic_ids else NO_TOPIC_ID
        text = None if topic_id == NO_TOPIC_ID else topic_id_to_text(topic_id)
        assignment = TopicAssignment(plan.replicas, text).encode()
        await self._write_config(plan)
        try:
            await self._store.create(paths.topic(plan.name), assignment, parents=True)
        except NodeExistsError:
            if not await self._holds(paths.topic(plan.name), assignment):  # else an earlier attempt's reply was lost
                message = f"Topic '{plan.name}' already exists."
                raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, message) from None
        logger.info("created topic %s with %d partitions", plan.name, len(plan.replicas))
        return topic_id

    async def _write_config(self, plan: TopicPlan) -> None:
        path, data = paths.topic_config(plan.name), ConfigEntity(plan.overrides).encode()
        try:
            await self._store.create(path, data, parents=True)
        except NodeExistsError:
            await self._store.write(path, data)

    def _created(self, plan: TopicPlan, topic_id: bytes) -> Any:
        shape = messages.create_topics_response
        return shape.CreatableTopicResult(
            name=plan.name,
            topic_id=topic_id,
            num_partitions=len(plan.replicas),
            replication_factor=plan.replication_factor,
            configs=[
                shape.CreatableTopicConfigs(
                    name=entry.name,
                    value=entry.value,
                    read_only=entry.read_only,
                    config_source=int(entry.source),
                    is_sensitive=entry.sensitive,
                )
                for entry in describe_topic(BrokerSources(static=self.config.current.originals), plan.overrides)
            ],
        )

    # -- more partitions

    async def create_partitions(
        self, request: Any, brokers: Racks
    ) -> messages.create_partitions_response.CreatePartitionsResponse:
        """CreatePartitionsResponse; likewise."""
        repeated = _repeated(topic.name for topic in request.topics)
        marked = frozenset(await self._children(paths.DELETE_TOPICS))
        shape = messages.create_partitions_response

        async def enlarge(topic: Any) -> Any:
            try:
                if topic.name in repeated:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
                if topic.name in marked:
                    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
                async with self._slots:
                    await self._enlarge(topic, brokers, validate_only=request.validate_only)
            except KafkaError as problem:
                return shape.CreatePartitionsTopicResult(
                    name=topic.name, error_code=int(problem.code), error_message=str(problem)
                )
            return shape.CreatePartitionsTopicResult(name=topic.name)

        requested = {topic.name: topic for topic in request.topics}.values()
        return shape.CreatePartitionsResponse(results=list(await asyncio.gather(*map(enlarge, requested))))

    async def _enlarge(self, topic: Any, brokers: Racks, *, validate_only: bool) -> None:
        path = paths.topic(topic.name)
        while True:
            try:
                data, stat = await self._store.read(path)
                current = TopicAssignment.decode(data)
                added = plan_partitions(topic.name, current, topic, brokers)
                if validate_only:
                    return
                enlarged = TopicAssignment(
                    {**current.partitions, **added}, current.topic_id, current.adding, current.removing
                ).encode()
                await self._store.write(path, enlarged, stat.version)
                return
            except NoNodeError:
                message = f"The topic '{topic.name}' does not exist."
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message) from None
            except MalformedZnodeError as problem:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem)) from problem
            except BadVersionError:
                if await self._holds(path, enlarged):
                    return  # an earlier attempt's reply was lost

    # -- delete

    async def delete_topics(
        self, request: Any, name_of: Callable[[bytes], str | None]
    ) -> messages.delete_topics_response.DeleteTopicsResponse:
        """DeleteTopicsResponse; the topics are marked, and gone once the controller is done with them.

        `name_of` finds topics by id. TOPIC_DELETION_DISABLED is what versions below 3 call INVALID_REQUEST.
        """
        wanted = [(topic.name, bytes(topic.topic_id)) for topic in request.topics]
        return messages.delete_topics_response.DeleteTopicsResponse(
            responses=list(await asyncio.gather(*(self._delete(name, topic_id, name_of) for name, topic_id in wanted)))
        )

    async def _delete(self, name: str | None, topic_id: bytes, name_of: Callable[[bytes], str | None]) -> Any:
        result = messages.delete_topics_response.DeletableTopicResult(name=name, topic_id=topic_id)
        try:
            if not self.config.current.delete_topic_enable:
                raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            if name is not None and topic_id != NO_TOPIC_ID:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Topic name and topic id can not both be specified.")
            known = name if name is not None else name_of(bytes(topic_id))
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            result.name = known
            async with self._slots:
                await self._mark_for_deletion(known)
        except KafkaError as problem:
            result.error_code, result.error_message = int(problem.code), problem.message
        return result

    async def _mark_for_deletion(self, name: str) -> None:
        if await self._store.exists(paths.topic(name)) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            await self._store.create(paths.delete_topic(name), parents=True)
        except NodeExistsError:
            pass  # marked already, which is what was asked for

    # -- reading

    async def _children(self, path: str) -> Sequence[str]:
        try:
            return await self._store.children(path)
        except NoNodeError:
            await ensure_path(self._store, path)
            return ()

    async def _holds(self, path: str, data: bytes) -> bool:
        try:
            return (await self._store.read(path))[0] == data
        except NoNodeError:
            return False


def _repeated(names: Any) -> Mapping[str, int]:
    return {name: count for name, count in Counter(names).items() if count > 1}
