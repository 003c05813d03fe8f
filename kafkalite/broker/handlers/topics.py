"""CreateTopics (19), DeleteTopics (20), CreatePartitions (37): carried out by the controller.

The handler waits until this broker's metadata shows the outcome.

- CreateTopics 4 defaults for counts (KIP-464), 5 configs in the answer (KIP-525), 7 topic ids. DeleteTopics 5 error messages, 6 by id.
- Asked of a broker that is not the controller: NOT_CONTROLLER, and the client finds the controller.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kafkalite.controller.requests import CreatedTopic, NewPartitions, NewTopic, TopicReference
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages

if TYPE_CHECKING:
    from kafkalite.broker.app import Broker
    from kafkalite.broker.dispatch import RequestContext

_DELETION_DISABLED_FROM = 3
_DELETION_S = 1.0


async def create_topics(
    broker: Broker, request: messages.create_topics_request.CreateTopicsRequest, context: RequestContext
) -> messages.create_topics_response.CreateTopicsResponse:
    """Create, then wait until all partitions have a leader or the request's timeout has passed."""
    deadline_ms = broker.clock.monotonic_ms() + request.timeout_ms
    outcomes = await broker.controller.create_topics(
        [_new_topic(topic) for topic in request.topics], validate_only=request.validate_only
    )
    results = [_creation(name, outcome) for name, outcome in outcomes.items()]
    for result in results:
        if result.error_code or request.validate_only:
            continue
        left_s = (deadline_ms - broker.clock.monotonic_ms()) / 1000
        partitions = range(await broker.topic_creation.partition_count(result.name))
        if not await broker.metadata.wait_until(partial(broker.metadata.has_leaders, result.name, partitions), left_s):
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
            result.error_message = "The topic was created, but not all its partitions had a leader in time."
    return messages.create_topics_response.CreateTopicsResponse(topics=results)


def _new_topic(topic: messages.create_topics_request.CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((each.partition_index, tuple(each.broker_ids)) for each in topic.assignments),
        tuple((each.name, each.value) for each in topic.configs),
    )


def _creation(name: str, outcome: CreatedTopic | KafkaError) -> messages.create_topics_response.CreatableTopicResult:
    m = messages.create_topics_response
    if isinstance(outcome, KafkaError):
        return m.CreatableTopicResult(name=name, error_code=int(outcome.code), error_message=str(outcome))
    return m.CreatableTopicResult(
        name=name,
        topic_id=outcome.topic_id,
        num_partitions=outcome.partition_count,
        replication_factor=outcome.replication_factor,
        configs=[
            m.CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=int(entry.source),
                is_sensitive=entry.sensitive,
            )
            for entry in outcome.configs
        ],
    )


async def delete_topics(
    broker: Broker, request: messages.delete_topics_request.DeleteTopicsRequest, context: RequestContext
) -> messages.delete_topics_response.DeleteTopicsResponse:
    """Mark for deletion, then wait until the topics are gone from this broker's metadata, and shortly for their znodes.

    Kafka answers when metadata shows them gone; whoever then makes a topic of that name is refused for a moment.
    """
    m = messages.delete_topics_response
    deadline_ms = broker.clock.monotonic_ms() + request.timeout_ms
    outcomes = await broker.controller.delete_topics(
        [TopicReference(topic.name, bytes(topic.topic_id)) for topic in request.topics]
    )
    results = []
    for topic, (name, problem) in zip(request.topics, outcomes, strict=True):
        result = m.DeletableTopicResult(name=name, topic_id=topic.topic_id)
        results.append(result)
        if problem is not None:
            disabled = problem.code is ErrorCode.TOPIC_DELETION_DISABLED
            too_old = disabled and context.api_version < _DELETION_DISABLED_FROM
            result.error_code = ErrorCode.INVALID_REQUEST if too_old else problem.code
            result.error_message = problem.message
    for result in results:
        if result.error_code or result.name is None:
            continue
        left_s = (deadline_ms - broker.clock.monotonic_ms()) / 1000
        if await broker.metadata.wait_until(partial(_is_gone, broker, result.name), left_s):
            # With a dead replica that may take for ever, so not for long.
            await broker.controller.wait_until_deleted(result.name, _DELETION_S)
        else:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
            result.error_message = "The topic is marked for deletion, but was not deleted in time."
    return m.DeleteTopicsResponse(responses=results)


async def create_partitions(
    broker: Broker, request: messages.create_partitions_request.CreatePartitionsRequest, context: RequestContext
) -> messages.create_partitions_response.CreatePartitionsResponse:
    """Enlarge, then wait until the new partitions have a leader or the request's timeout has passed."""
    m = messages.create_partitions_response
    deadline_ms = broker.clock.monotonic_ms() + request.timeout_ms
    outcomes = await broker.controller.create_partitions(
        [_new_partitions(topic) for topic in request.topics], validate_only=request.validate_only
    )
    counts = {topic.name: topic.count for topic in request.topics}
    results = []
    for name, problem in outcomes.items():
        result = m.CreatePartitionsTopicResult(name=name)
        results.append(result)
        if problem is not None:
            result.error_code, result.error_message = problem.code, str(problem)
        elif not request.validate_only:
            left_s = (deadline_ms - broker.clock.monotonic_ms()) / 1000
            wanted = range(counts[name])
            if not await broker.metadata.wait_until(partial(broker.metadata.has_leaders, name, wanted), left_s):
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
                result.error_message = "The partitions were created, but not all of them had a leader in time."
    return m.CreatePartitionsResponse(results=results)


def _new_partitions(topic: messages.create_partitions_request.CreatePartitionsTopic) -> NewPartitions:
    given = topic.assignments
    return NewPartitions(topic.name, topic.count, None if given is None else tuple(tuple(a.broker_ids) for a in given))


def _is_gone(broker: Broker, topic: str) -> bool:
    return topic not in broker.metadata.topics
