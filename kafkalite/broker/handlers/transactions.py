"""DescribeTransactions (65), ListTransactions (66): what transactional ids are doing (KIP-664).

- ListTransactions 1 a filter by duration.
- Not done: transactions. No transactional id has ever been used, so nothing is listed and every id is unknown, as a coordinator says
  whom nobody has asked for one. Nobody who wants to write transactionally is led to believe in it: FindCoordinator and
  InitProducerId refuse transactional ids.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kafkalite.broker.authorizer import Operation, Permission, ResourceType
from kafkalite.broker.request_context import RequestContext
from kafkalite.broker.served_api import served
from kafkalite.errors import ErrorCode
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey

STATES: Final = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)


def describe_transactions(
    parts: object, request: messages.describe_transactions_request.DescribeTransactionsRequest, context: RequestContext
) -> (
    messages.describe_transactions_response.DescribeTransactionsResponse
    | asyncio.Future[messages.describe_transactions_response.DescribeTransactionsResponse]
):
    """TRANSACTIONAL_ID_NOT_FOUND for each; INVALID_REQUEST for what cannot be an id."""
    return context.portions.run(_described(request))


def _described(
    request: messages.describe_transactions_request.DescribeTransactionsRequest,
) -> Work[messages.describe_transactions_response.DescribeTransactionsResponse]:
    m = messages.describe_transactions_response
    states = []
    for each in request.transactional_ids:
        yield
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if each else ErrorCode.INVALID_REQUEST
        states.append(m.TransactionState(transactional_id=each, error_code=code))
    return m.DescribeTransactionsResponse(transaction_states=states)


def list_transactions(
    parts: object, request: messages.list_transactions_request.ListTransactionsRequest, context: RequestContext
) -> messages.list_transactions_response.ListTransactionsResponse:
    """None, and those of the wanted states that do not exist."""
    unknown = [each for each in dict.fromkeys(request.state_filters) if each not in STATES]
    return messages.list_transactions_response.ListTransactionsResponse(unknown_state_filters=unknown)


def _description_failed(
    request: messages.describe_transactions_request.DescribeTransactionsRequest, code: ErrorCode, message: str | None
) -> messages.describe_transactions_response.DescribeTransactionsResponse:
    m = messages.describe_transactions_response
    return m.DescribeTransactionsResponse(
        transaction_states=[
            m.TransactionState(transactional_id=each, error_code=code) for each in request.transactional_ids
        ]
    )


_DESCRIBE: Final = Permission(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
APIS: Final = (
    served(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, describe_transactions, _DESCRIBE, failure=_description_failed),
    served(ApiKey.LIST_TRANSACTIONS, 0, 1, list_transactions, _DESCRIBE),
)
