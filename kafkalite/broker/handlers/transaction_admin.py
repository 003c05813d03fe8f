"""DescribeTransactions (65), ListTransactions (66): what transactional ids are doing, told by their coordinators (KIP-664).

- ListTransactions 1 a filter by duration: transactions that have been open for longer.
- A transaction that is being completed shows the partitions that still wait for their markers, as in Kafka.
- An id that is not in a transaction shows no start; Kafka shows that of its last one until the coordinator moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.identity.authorizer import DESCRIBE_TOPIC, DESCRIBE_TRANSACTIONAL_ID
from kafkalite.broker.parts import HasTransactions
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.guards import Each, Visible
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import run_in_portions, serve_api
from kafkalite.coordinators.transaction.transaction_record import BY_LABEL, TransactionState
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey

if TYPE_CHECKING:
    from kafkalite.broker.coordination.marker_sender import MarkerSender


_BEING_COMPLETED: Final = frozenset({TransactionState.PREPARE_COMMIT.label, TransactionState.PREPARE_ABORT.label})


class Parts(HasTransactions, Protocol):
    """The parts of the broker that these handlers use."""

    @property
    def marker_sender(self) -> MarkerSender: ...


@run_in_portions
def describe_transactions(
    parts: Parts, request: messages.DescribeTransactionsRequest, context: RequestContext
) -> Work[messages.DescribeTransactionsResponse]:
    """Describe transactional ids; unknown ones get TRANSACTIONAL_ID_NOT_FOUND, an empty one INVALID_REQUEST."""
    m = messages.describe_transactions_response
    states = []
    for each in dict.fromkeys(request.transactional_ids):
        yield
        state = m.TransactionState(transactional_id=each)
        states.append(state)
        try:
            if not each:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            described = parts.transactions.machine_for(each).describe(each)
            if described is None:
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        except KafkaError as problem:
            state.error_code = problem.code
            continue
        state.transaction_state = described.state
        state.transaction_timeout_ms = described.timeout_ms
        state.transaction_start_time_ms = described.start_ms
        state.producer_id, state.producer_epoch = described.producer_id, described.producer_epoch
        unwritten = parts.marker_sender.unwritten(each) if described.state in _BEING_COMPLETED else None
        for topic, partitions in described.partitions.items():
            yield
            left = [index for index in sorted(partitions) if unwritten is None or (topic, index) in unwritten]
            if left and context.may(DESCRIBE_TOPIC, topic):
                state.topics.append(m.TopicData(topic=topic, partitions=left))
    return m.DescribeTransactionsResponse(transaction_states=states)


@run_in_portions
def list_transactions(
    parts: Parts, request: messages.ListTransactionsRequest, context: RequestContext
) -> Work[messages.ListTransactionsResponse]:
    """Return the transactional ids that this broker coordinates and that pass each filter."""
    m = messages.list_transactions_response
    runtime = parts.transactions
    if runtime.is_loading:
        return m.ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states, producer_ids = set(request.state_filters), set(request.producer_id_filters)
    now_ms = runtime.now().wall_ms
    listed = []
    for machine in list(runtime.loaded_machines()):
        for each in machine.list_transactions():
            yield
            if (
                (not states or each.state in states)
                and (not producer_ids or each.producer_id in producer_ids)
                and (request.duration_filter < 0 or now_ms - each.start_ms > request.duration_filter)
            ):
                listed.append(
                    m.TransactionState(
                        transactional_id=each.transactional_id,
                        producer_id=each.producer_id,
                        transaction_state=each.state,
                    )
                )
    return m.ListTransactionsResponse(
        unknown_state_filters=[each for each in dict.fromkeys(request.state_filters) if each not in BY_LABEL],
        transaction_states=listed,
    )


APIS: Final = (
    serve_api(
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        0,
        describe_transactions,
        failure=FailedItems(),
        guard=Each(DESCRIBE_TRANSACTIONAL_ID, "transactional_ids", "transaction_states", name=None),
    ),
    serve_api(
        ApiKey.LIST_TRANSACTIONS,
        0,
        1,
        list_transactions,
        guard=Visible(DESCRIBE_TRANSACTIONAL_ID, "transaction_states", "transactional_id"),
    ),
)
