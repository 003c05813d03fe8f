"""DescribeProducers (61): the producers that replicas here know, also of partitions that another broker leads (KIP-664).

- A partition that is named several times is answered once (Kafka: as often as it is named).
"""

from __future__ import annotations

from typing import Final

from kafkalite.broker.identity.authorizer import READ_TOPIC
from kafkalite.broker.parts import HasReplicas
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.guards import Each
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import run_in_portions, serve_api
from kafkalite.errors import KafkaError
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition


@run_in_portions
def describe_producers(
    parts: HasReplicas, request: messages.DescribeProducersRequest, context: RequestContext
) -> Work[messages.DescribeProducersResponse]:
    """Return id, epoch, last sequence and open transaction of each active producer."""
    m = messages.describe_producers_response
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        yield
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    topics = []
    for name, indexes in asked.items():
        yield
        answers = []
        for index in indexes:
            yield
            answer = m.PartitionResponse(partition_index=index)
            try:
                partition = parts.replicas.require(TopicPartition(name, index))
                producers = partition.log.producers
                open_from = producers.open_transactions
                for each in list(producers.producers.values()):
                    yield
                    answer.active_producers.append(
                        m.ProducerState(
                            producer_id=each.producer_id,
                            producer_epoch=each.epoch,
                            last_sequence=each.last_sequence,
                            last_timestamp=each.last_timestamp,
                            coordinator_epoch=each.coordinator_epoch,
                            current_txn_start_offset=open_from.get(each.producer_id, -1),
                        )
                    )
            except KafkaError as problem:
                answer.error_code, answer.error_message = problem.code, problem.message
            answers.append(answer)
        topics.append(m.TopicResponse(name=name, partitions=answers))
    return m.DescribeProducersResponse(topics=topics)


APIS: Final = (
    serve_api(
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        0,
        describe_producers,
        failure=FailedItems(),
        guard=Each(READ_TOPIC, "topics", "topics", message="Topic authorization failed."),
    ),
)
