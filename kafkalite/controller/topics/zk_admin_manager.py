"""Creation, enlargement and deletion of topics in ZooKeeper, as Kafka's ZkAdminManager.

The writes are not fenced: the controller is notified of them by its watches, so tools and brokers that are not the controller can
make them too. A topic's config is written before its assignment, whose creation is the topic's.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import attrgetter
from typing import TypeAlias, TypeVar

from kafkalite.config.broker import LiveConfig
from kafkalite.config.dynamic import BrokerSources, ConfigEntry, describe_topic
from kafkalite.controller.requests import (
    AlreadyMarkedForDeletion,
    Charge,
    CreatedTopic,
    NewPartitions,
    NewTopic,
    TopicReference,
    free,
)
from kafkalite.controller.settings import ControllerSettings
from kafkalite.controller.topics.size_policy import check_config, check_new_assignment, check_topic_list
from kafkalite.controller.topics.topic_locks import TopicLocks
from kafkalite.controller.topics.topic_validation import (
    Racks,
    TopicNames,
    TopicPlan,
    is_legal,
    metric_name,
    plan_partitions,
    plan_topic,
)
from kafkalite.controller.topics.topic_znodes import random_topic_id
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Pace, Portions, Work
from kafkalite.types import NO_TOPIC_ID, topic_id_to_text
from zk import paths
from zk.size_limits import name_bytes
from zk.store import BadVersionError, NodeExistsError, NoNodeError, Store
from zk.subtree import ensure_path
from zk.znodes import ConfigEntity, MalformedZnodeError, TopicAssignment

logger = logging.getLogger(__name__)

CONCURRENT_TOPICS = 64
_PLAN_UNITS = 5
"""Units of pacing for the validation of one topic, besides those for its partitions."""

T = TypeVar("T")
OutcomeT = TypeVar("OutcomeT")


_Described: TypeAlias = dict[tuple[tuple[str, str], ...], tuple[ConfigEntry, ...]]
"""Described settings of topics by their overrides."""


class ZkAdminManager:
    """Validates requests (`topic_validation`) and writes them; overlapping requests are serialized by `topic_locks`.

    `config` is the broker's.
    """

    def __init__(self, store: Store, config: LiveConfig, rng: random.Random) -> None:
        self.config = config
        self._store = store
        self._rng = rng
        self._slots = asyncio.Semaphore(CONCURRENT_TOPICS)
        self._reserved_bytes = 0
        """What topics that are being created will add to the list of topics."""
        self._portions = Portions()
        self._locks = TopicLocks(self._read_names)

    # -- create

    async def create_topics(
        self, topics: Sequence[NewTopic], brokers: Racks, *, validate_only: bool = False, charge: Charge = free
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics and return the outcome by name, with Kafka's error messages. `brokers` are the live ones."""
        requested = await self._portions.finish(_group(topics, attrgetter("name")))
        described: _Described = {}
        outcomes: dict[str, CreatedTopic | KafkaError] = {}
        async with self._locks.track_names() as names:

            async def create(topic: NewTopic, pace: Pace) -> CreatedTopic | KafkaError:
                if len(requested[topic.name]) > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
                await pace.unit(_PLAN_UNITS + (max(topic.partition_count, 0) + len(topic.assignments)) // 4)
                names.check_free(topic.name)
                plan = plan_topic(topic, brokers, self.config.current, self._rng)
                with self._reserve_room(plan, names):
                    if not validate_only:
                        charge(len(plan.replicas))
                    async with self._slots:
                        topic_id = NO_TOPIC_ID if validate_only else await self._write_topic(plan)
                return self._describe_created(plan, topic_id, described)

            async def create_in_order(colliding: Sequence[NewTopic], pace: Pace) -> None:
                async with self._locks.lock(colliding[0].name, names):
                    for topic in colliding:
                        try:
                            outcomes[topic.name] = await create(topic, pace)
                        except KafkaError as problem:
                            outcomes[topic.name] = problem.as_outcome()

            first_of_each = [each[0] for each in requested.values()]
            together = await self._portions.finish(_group(first_of_each, lambda topic: metric_name(topic.name)))
            await self._for_each(together.values(), create_in_order)
        return {name: outcomes[name] for name in requested}

    async def _for_each(self, items: Collection[T], act: Callable[[T, Pace], Awaitable[OutcomeT]]) -> list[OutcomeT]:
        """Await `act` for all items, at most CONCURRENT_TOPICS at once, and return the results in order."""
        outcomes: dict[int, OutcomeT] = {}
        numbered = enumerate(items)
        pace = self._portions.pace()

        async def work() -> None:
            for index, item in numbered:
                await pace.unit()
                outcomes[index] = await act(item, pace)

        await asyncio.gather(*(work() for _ in range(min(len(items), CONCURRENT_TOPICS))))
        return [outcomes[index] for index in range(len(items))]

    async def _read_names(self) -> tuple[Sequence[str], Sequence[str]]:
        existing, marked = await asyncio.gather(self._children(paths.TOPICS), self._children(paths.DELETE_TOPICS))
        return existing, marked

    @contextmanager
    def _reserve_room(self, plan: TopicPlan, names: TopicNames) -> Iterator[None]:
        """Count a topic in the list of topics while it is created.

        Raises KafkaError POLICY_VIOLATION if its znodes or that list would get too large.
        """
        limits, own_bytes = self._settings.size_limits, name_bytes(plan.name)
        try:
            check_config(limits, plan.name, ConfigEntity(plan.overrides).encode())
            check_new_assignment(limits, plan.name, TopicAssignment(plan.replicas))
            check_topic_list(limits, plan.name, names.list_bytes + self._reserved_bytes + own_bytes)
        except KafkaError as problem:
            logger.warning("topic %s is refused: %s", plan.name, problem)  # auto-creation passes on the code only
            raise
        self._reserved_bytes += own_bytes
        try:
            yield
        finally:
            self._reserved_bytes -= own_bytes

    @property
    def _settings(self) -> ControllerSettings:
        config = self.config.current
        return ControllerSettings.from_config(config.broker_id, config)

    async def _write_topic(self, plan: TopicPlan) -> bytes:
        """Write a topic's znodes and return its id. Raises KafkaError TOPIC_ALREADY_EXISTS."""
        settings = self._settings
        topic_id = random_topic_id(self._rng) if settings.inter_broker_protocol_version.gives_topic_ids else NO_TOPIC_ID
        text = None if topic_id == NO_TOPIC_ID else topic_id_to_text(topic_id)
        assignment = TopicAssignment(plan.replicas, text).encode()
        await self._write_config(plan)
        try:
            await self._store.create(paths.topic(plan.name), assignment, parents=True)
        except NodeExistsError:
            if not await self._holds(
                paths.topic(plan.name), assignment
            ):  # otherwise an earlier attempt's reply was lost
                self._locks.add_created(plan.name)
                message = f"Topic '{plan.name}' already exists."
                raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, message) from None
        self._locks.add_created(plan.name)
        logger.info("created topic %s with %d partitions", plan.name, len(plan.replicas))
        return topic_id

    async def _write_config(self, plan: TopicPlan) -> None:
        path, data = paths.topic_config(plan.name), ConfigEntity(plan.overrides).encode()
        try:
            await self._store.create(path, data, parents=True)
        except NodeExistsError:
            await self._store.write(path, data)

    def _describe_created(self, plan: TopicPlan, topic_id: bytes, described: _Described) -> CreatedTopic:
        """Return the result of a creation; topics with the same overrides share their described settings, which are costly."""
        overrides = tuple(sorted(plan.overrides.items()))
        configs = described.get(overrides)
        if configs is None:
            sources = BrokerSources(static=self.config.current.originals)
            configs = described[overrides] = tuple(describe_topic(sources, plan.overrides))
        return CreatedTopic(topic_id, len(plan.replicas), plan.replication_factor, configs)

    # -- more partitions

    async def create_partitions(
        self, topics: Sequence[NewPartitions], brokers: Racks, *, validate_only: bool = False, charge: Charge = free
    ) -> dict[str, KafkaError | None]:
        """Add partitions to topics and return the error or None by name. `brokers` are the live ones."""
        requested = await self._portions.finish(_group(topics, attrgetter("name")))
        async with self._locks.track_names() as names:

            async def enlarge(asked: Sequence[NewPartitions], pace: Pace) -> KafkaError | None:
                topic = asked[0]
                try:
                    if len(asked) > 1:
                        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
                    async with self._locks.lock(topic.name, names), self._slots:
                        if names.is_marked(topic.name):
                            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
                        await self._enlarge(topic, brokers, validate_only, charge)
                except KafkaError as problem:
                    return problem.as_outcome()
                return None

            outcomes = await self._for_each(requested.values(), enlarge)
        return dict(zip(requested, outcomes, strict=True))

    async def _enlarge(self, topic: NewPartitions, brokers: Racks, validate_only: bool, charge: Charge) -> None:
        path, is_charged = paths.topic(topic.name), False
        while True:
            try:
                if not is_legal(topic.name):
                    raise NoNodeError(path)  # its path might be that of another znode
                data, stat = await self._store.read(path)
                current = TopicAssignment.decode(data)
                added = plan_partitions(topic, current, brokers)
                assignment = replace(current, partitions={**current.partitions, **added})
                check_new_assignment(self._settings.size_limits, topic.name, assignment)
                if validate_only:
                    return
                if not is_charged:  # once, also if the write is repeated after a conflict
                    charge(len(added))
                    is_charged = True
                enlarged = assignment.encode()
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
        self,
        topics: Sequence[TopicReference],
        name_of: Callable[[bytes], str | None],
        charge: Callable[[str], None] = lambda name: None,
    ) -> list[tuple[str | None, KafkaError | None]]:
        """Mark topics for deletion; return for each its name, None for an unknown id, and its error or None.

        `name_of` finds names by topic id; `charge` is called with a name and may raise KafkaError, as `Charge`.
        """
        once = dict.fromkeys(topics)

        async def delete(topic: TopicReference, pace: Pace) -> tuple[str | None, KafkaError | None]:
            return await self._delete(topic, name_of, charge)

        outcomes = dict(zip(once, await self._for_each(once, delete), strict=True))
        return [outcomes[topic] for topic in topics]

    async def _delete(
        self, topic: TopicReference, name_of: Callable[[bytes], str | None], charge: Callable[[str], None]
    ) -> tuple[str | None, KafkaError | None]:
        name = topic.name
        try:
            if not self.config.current.delete_topic_enable:
                raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            if name is not None and topic.topic_id != NO_TOPIC_ID:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Topic name and topic id can not both be specified.")
            if name is None:
                name = name_of(topic.topic_id)
            if name is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            async with self._locks.lock(name), self._slots:
                await self._mark_for_deletion(name, charge)
        except KafkaError as problem:
            return name, problem
        return name, None

    async def _mark_for_deletion(self, name: str, charge: Callable[[str], None]) -> None:
        if not is_legal(name) or await self._store.exists(paths.topic(name)) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        charge(name)
        try:
            await self._store.create(paths.delete_topic(name), parents=True)
        except NodeExistsError:
            self._locks.add_marked(name)
            raise AlreadyMarkedForDeletion from None
        self._locks.add_marked(name)

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


def _group(items: Iterable[T], key: Callable[[T], str]) -> Work[dict[str, list[T]]]:
    groups: dict[str, list[T]] = {}
    for item in items:
        yield
        groups.setdefault(key(item), []).append(item)
    return groups
