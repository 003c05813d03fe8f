"""CreateTopics (19), DeleteTopics (20), CreatePartitions (37): carried out by the controller.

The handler waits until this broker's metadata shows the outcome, and shortly for the other brokers: Kafka does not, so a client that has
made a topic and asks the next broker for it may be refused.

- CreateTopics 1 error messages and validation only; 4 defaults for counts (KIP-464); 5 configs in the answer (KIP-525); 7 topic ids.
  DeleteTopics 5 error messages; 6 by id.
- What is created and deleted counts for controller_mutation_rate (KIP-599): CreateTopics 6, DeleteTopics 5 and CreatePartitions 3 may
  be refused for it, older versions are slowed down only.
- Asked of a broker that is not the controller: NOT_CONTROLLER, and the client finds the controller.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from kafkalite.broker.identity.authorizer import (
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DELETE_TOPIC,
    DESCRIBE_TOPIC,
    Operation,
    Permission,
    ResourceType,
)
from kafkalite.broker.parts import HasClock, HasMetadata, HasQuotas, HasTopicCreation
from kafkalite.broker.requests.failures import FailedItems, Failure
from kafkalite.broker.requests.guards import Each, Judged, judge_items
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.controller.requests import (
    AlreadyMarkedForDeletion,
    Charge,
    CreatedTopic,
    NewPartitions,
    NewTopic,
    TopicReference,
    free,
)
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalite.broker.settings.quotas import Mutations
    from kafkalite.config.dynamic import ConfigEntry

T = TypeVar("T")
MadeT = TypeVar("MadeT")

_DELETION_DISABLED_FROM = 3
_STRICT_CREATION_FROM: Final = 6
_STRICT_DELETION_FROM: Final = 5
_STRICT_ENLARGEMENT_FROM: Final = 3
_DELETION_S = 1.0
_KNOWN_S = 0.5
"""Longest wait for brokers that have not applied the outcome: a dead one does not answer before its session ends."""


class Controller(Protocol):
    """The controller, as these handlers use it."""

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, charge: Charge = free
    ) -> dict[str, CreatedTopic | KafkaError]: ...

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False, charge: Charge = free
    ) -> dict[str, KafkaError | None]: ...

    async def delete_topics(
        self, topics: Sequence[TopicReference], *, charge: Charge = free
    ) -> list[tuple[str | None, KafkaError | None]]: ...

    async def wait_until_deleted(self, topic: str, timeout_s: float) -> bool: ...

    async def wait_until_brokers_know(self, timeout_s: float) -> bool: ...


class Mutating(HasClock, HasQuotas, Protocol):
    """The parts that charge clients for created and deleted partitions."""


class Parts(Mutating, HasMetadata, HasTopicCreation, Protocol):
    """The parts of the broker that these handlers use."""

    @property
    def controller(self) -> Controller: ...


async def create_topics(
    parts: Parts, request: messages.CreateTopicsRequest, context: RequestContext
) -> messages.CreateTopicsResponse:
    """Create, then wait until all partitions have a leader or the request's timeout has passed."""
    deadline_ms = parts.clock.monotonic_ms() + request.timeout_ms
    mutations = mutations_of(parts, context, _STRICT_CREATION_FROM)
    asked = await context.portions.finish(_each(_new_topic, request.topics))
    free_names = [each for each in asked if each.name not in parts.metadata.topics]
    made = await parts.controller.create_topics(
        free_names,
        validate_only=request.validate_only,
        charge=free if mutations is None else mutations.charge,
    )
    outcomes = await context.portions.finish(_order_outcomes(asked, made))
    results = await context.portions.finish(_make_creation_results(outcomes))
    pace = context.portions.pace()
    for result in results:
        await pace.unit()
        if result.error_code or request.validate_only:
            continue
        left_s = (deadline_ms - parts.clock.monotonic_ms()) / 1000
        partitions = range(await parts.topic_creation.partition_count(result.name))
        if not await parts.metadata.wait_until(partial(parts.metadata.has_leaders, result.name, partitions), left_s):
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
            result.error_message = "The topic was created, but not all its partitions had a leader in time."
            result.configs, result.num_partitions, result.replication_factor = [], -1, -1
    if not request.validate_only:
        await _wait_for_brokers(parts, deadline_ms)
    return messages.CreateTopicsResponse(topics=results, throttle_time_ms=silenced_for(mutations, context))


def _order_outcomes(
    asked: Sequence[NewTopic], made: Mapping[str, CreatedTopic | KafkaError]
) -> Work[dict[str, CreatedTopic | KafkaError]]:
    """Return the outcomes by name. A topic that brokers host exists, even if its znode was removed by hand (as ZkAdminManager sees it)."""
    outcomes: dict[str, CreatedTopic | KafkaError] = {}
    for topic in asked:
        yield
        known = made.get(topic.name)
        if known is not None:
            outcomes[topic.name] = known
        elif topic.name in outcomes:
            outcomes[topic.name] = KafkaError(ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
        else:
            message = f"Topic '{topic.name}' already exists."
            outcomes[topic.name] = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, message)
    return outcomes


def mutations_of(parts: Mutating, context: RequestContext, strict_from: int) -> Mutations | None:
    """Return the quota that the request is charged to; versions before `strict_from` are never refused for it (KIP-599)."""
    return parts.quotas.mutations.of(
        context.user,
        context.client_id or "",
        parts.clock.monotonic_ms,
        is_strict=context.api_version >= strict_from,
    )


def silenced_for(mutations: Mutations | None, context: RequestContext) -> int:
    """Mute the connection for what the request was charged; return for how many ms."""
    throttle_ms = 0 if mutations is None else mutations.throttle_ms()
    if throttle_ms:
        context.connection.mute(throttle_ms / 1000)
    return throttle_ms


def _new_topic(topic: messages.create_topics_request.CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((each.partition_index, tuple(each.broker_ids)) for each in topic.assignments),
        tuple((each.name, each.value) for each in topic.configs),
    )


def _each(make: Callable[[T], MadeT], items: Iterable[T]) -> Work[list[MadeT]]:
    made = []
    for item in items:
        for _ in range(1 + len(getattr(item, "assignments", None) or ())):
            yield
        made.append(make(item))
    return made


def _make_creation_results(
    outcomes: Mapping[str, CreatedTopic | KafkaError],
) -> Work[list[messages.create_topics_response.CreatableTopicResult]]:
    """Return the result of each topic; topics with the same settings share their entries."""
    m = messages.create_topics_response
    told: dict[int, list[messages.create_topics_response.CreatableTopicConfigs]] = {}
    results = []
    for name, outcome in outcomes.items():
        yield
        if isinstance(outcome, KafkaError):
            results.append(_make_failed_creation(name, outcome.code, str(outcome)))
            continue
        configs = told.get(id(outcome.configs))
        if configs is None:
            configs = told[id(outcome.configs)] = [_config(entry) for entry in outcome.configs]
        results.append(
            m.CreatableTopicResult(
                name=name,
                topic_id=outcome.topic_id,
                num_partitions=outcome.partition_count,
                replication_factor=outcome.replication_factor,
                configs=configs,
            )
        )
    return results


def _make_failed_creation(
    name: str, code: ErrorCode, message: str | None
) -> messages.create_topics_response.CreatableTopicResult:
    """Return the result of a topic that was not created, with an empty list of settings instead of null, as in Kafka."""
    return messages.create_topics_response.CreatableTopicResult(
        name=name, error_code=code, error_message=message, configs=[]
    )


def _config(entry: ConfigEntry) -> messages.create_topics_response.CreatableTopicConfigs:
    return messages.create_topics_response.CreatableTopicConfigs(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.sensitive,
    )


async def delete_topics(
    parts: Parts, request: messages.DeleteTopicsRequest, context: RequestContext
) -> messages.DeleteTopicsResponse:
    """Mark for deletion, then wait until the topics are gone from this broker's metadata, and shortly for their znodes.

    Kafka answers when metadata shows them gone; whoever then makes a topic of that name is refused for a moment. A topic that was gone from
    metadata before is unknown, although a dead replica may keep its znodes.
    """
    m = messages.delete_topics_response
    deadline_ms = parts.clock.monotonic_ms() + request.timeout_ms
    mutations = mutations_of(parts, context, _STRICT_DELETION_FROM)
    gone = await context.portions.finish(_find_deleted(parts, request))
    outcomes = await parts.controller.delete_topics(
        await context.portions.finish(
            _each(lambda topic: TopicReference(topic.name, bytes(topic.topic_id)), request.topics)
        ),
        charge=free if mutations is None else mutations.charge,
    )
    results = []
    pace = context.portions.pace()
    for topic, (name, problem) in zip(request.topics, outcomes, strict=True):
        await pace.unit()
        result = m.DeletableTopicResult(name=name, topic_id=topic.topic_id)
        results.append(result)
        if problem is not None and (
            not isinstance(problem, AlreadyMarkedForDeletion) or (topic.name, topic.topic_id) in gone
        ):
            disabled = problem.code is ErrorCode.TOPIC_DELETION_DISABLED
            too_old = disabled and context.api_version < _DELETION_DISABLED_FROM
            result.error_code = ErrorCode.INVALID_REQUEST if too_old else problem.code
            result.error_message = problem.message
    for result in results:
        await pace.unit()
        if result.error_code or result.name is None:
            continue
        left_s = (deadline_ms - parts.clock.monotonic_ms()) / 1000
        if await parts.metadata.wait_until(partial(_is_gone, parts, result.name), left_s):
            # With a dead replica that may take for ever, so not for long.
            await parts.controller.wait_until_deleted(result.name, _DELETION_S)
        else:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
            result.error_message = "The topic is marked for deletion, but was not deleted in time."
    await _wait_for_brokers(parts, deadline_ms)
    return m.DeleteTopicsResponse(responses=results, throttle_time_ms=silenced_for(mutations, context))


async def create_partitions(
    parts: Parts, request: messages.CreatePartitionsRequest, context: RequestContext
) -> messages.CreatePartitionsResponse:
    """Enlarge, then wait until the new partitions have a leader or the request's timeout has passed."""
    m = messages.create_partitions_response
    deadline_ms = parts.clock.monotonic_ms() + request.timeout_ms
    wanted = await context.portions.finish(_each(_new_partitions, request.topics))
    mutations = mutations_of(parts, context, _STRICT_ENLARGEMENT_FROM)
    outcomes = await parts.controller.create_partitions(
        wanted,
        validate_only=request.validate_only,
        charge=free if mutations is None else mutations.charge,
    )
    counts = {topic.name: topic.count for topic in wanted}
    results = []
    pace = context.portions.pace()
    for name, problem in outcomes.items():
        await pace.unit()
        result = m.CreatePartitionsTopicResult(name=name)
        results.append(result)
        if problem is not None:
            result.error_code, result.error_message = problem.code, str(problem)
        elif not request.validate_only:
            left_s = (deadline_ms - parts.clock.monotonic_ms()) / 1000
            indexes = range(counts[name])
            if not await parts.metadata.wait_until(partial(parts.metadata.has_leaders, name, indexes), left_s):
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
                result.error_message = "The partitions were created, but not all of them had a leader in time."
    if not request.validate_only:
        await _wait_for_brokers(parts, deadline_ms)
    return m.CreatePartitionsResponse(results=results, throttle_time_ms=silenced_for(mutations, context))


def _new_partitions(topic: messages.create_partitions_request.CreatePartitionsTopic) -> NewPartitions:
    given = topic.assignments
    return NewPartitions(topic.name, topic.count, None if given is None else tuple(tuple(a.broker_ids) for a in given))


async def _wait_for_brokers(parts: Parts, deadline_ms: float) -> None:
    """Wait until all brokers know of what was done, within the request's time."""
    left_s = (deadline_ms - parts.clock.monotonic_ms()) / 1000
    if left_s > 0:
        await parts.controller.wait_until_brokers_know(min(left_s, _KNOWN_S))


def _is_gone(parts: Parts, topic: str) -> bool:
    return topic not in parts.metadata.topics


def _find_deleted(parts: Parts, request: messages.DeleteTopicsRequest) -> Work[set[tuple[str | None, bytes]]]:
    """Return the name and id of each topic of the request that this broker's metadata does not show."""
    gone: set[tuple[str | None, bytes]] = set()
    for topic in request.topics:
        yield
        name = topic.name if topic.name is not None else parts.metadata.topic_name(topic.topic_id)
        if name is None or _is_gone(parts, name):
            gone.add((topic.name, topic.topic_id))
    return gone


# Authorisation


_DESCRIBE_CONFIGS: Final = Permission(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC)
_ALTER: Final = Permission(Operation.ALTER, ResourceType.TOPIC)
_EACH_CREATED: Final = Each(
    CREATE_TOPIC,
    "topics",
    "topics",
    message="Authorization failed.",
    unless=CREATE_CLUSTER,
)


def _guard_creation(
    parts: object, request: messages.CreateTopicsRequest, context: RequestContext, failure: Failure
) -> Work[Judged]:
    """Refuse topics one by one, and leave the settings out for clients without DESCRIBE_CONFIGS (KIP-525)."""
    judged = yield from _EACH_CREATED(parts, request, context, failure)

    def complete(reply: messages.CreateTopicsResponse) -> Work[messages.CreateTopicsResponse]:
        if judged.complete is not None:
            reply = yield from judged.complete(reply)
        for topic in reply.topics:
            yield
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
                continue
            if not context.may(_DESCRIBE_CONFIGS, topic.name, is_asked=False):
                topic.configs, topic.num_partitions, topic.replication_factor = [], -1, -1
                topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return reply

    return Judged(judged.request, complete)


def _guard_deletion(
    parts: Parts, request: messages.DeleteTopicsRequest, context: RequestContext, failure: Failure
) -> Work[Judged]:
    """Refuse topics one by one. Clients that may not describe a topic, and named it by its id, are not told its name."""
    allowed, refused = [], []
    for topic in request.topics:
        yield
        name = topic.name if topic.name is not None else parts.metadata.topic_name(topic.topic_id)
        if name is None or context.may(DELETE_TOPIC, name):
            allowed.append(topic)
            continue
        is_known = topic.name is not None or context.may(DESCRIBE_TOPIC, name, is_asked=False)
        refused.append(
            messages.delete_topics_response.DeletableTopicResult(
                name=name if is_known else None,
                topic_id=topic.topic_id,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            )
        )
    return judge_items(request, "topics", allowed, "responses", refused, failure)


APIS: Final = (
    serve_api(ApiKey.CREATE_TOPICS, 0, 7, create_topics, failure=FailedItems(configs=[]), guard=_guard_creation),
    serve_api(ApiKey.DELETE_TOPICS, 0, 6, delete_topics, failure=FailedItems(), guard=_guard_deletion),
    serve_api(
        ApiKey.CREATE_PARTITIONS,
        0,
        3,
        create_partitions,
        failure=FailedItems(),
        guard=Each(_ALTER, "topics", "results", message="The topic authorization is failed."),
    ),
)
