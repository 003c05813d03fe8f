"""DescribeUserScramCredentials (50), AlterUserScramCredentials (51): SCRAM credentials of users, kept in ZooKeeper (KIP-554).

- Only version 0. They lie in `/config/users/<user>` beside the quotas of the user, and changes of one leave the other alone.
- Any broker describes, from the znodes; only the controller alters.
- Where the controller is another broker, Kafka answers NOT_CONTROLLER without a message, which clients that do not look for the controller
  take for success; here the message says it too.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final, Protocol

from kafkalite.broker.identity.authorizer import ALTER_CLUSTER, DESCRIBE_CLUSTER
from kafkalite.broker.identity.user_credentials import NO_USER_NAME, credentials_in, judge, users_of
from kafkalite.broker.parts import HasControllerRole, HasDynamicConfigs, HasStore
from kafkalite.broker.requests.failures import FailedItems
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.broker.settings.quota_znodes import entity_of, entity_path
from kafkalite.broker.settings.quotas import QuotaEntity
from kafkalite.controller.event_manager import NOT_CONTROLLER_MESSAGE
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.security.scram import ScramCredential, ScramMechanism
from zk import paths
from zk.store import NoNodeError

logger = logging.getLogger("kafkalite.broker.user_scram_credentials")


class Parts(HasStore, HasDynamicConfigs, HasControllerRole, Protocol):
    """The parts of the broker that these handlers use."""


async def describe_user_scram_credentials(
    parts: Parts, request: messages.DescribeUserScramCredentialsRequest, context: RequestContext
) -> messages.DescribeUserScramCredentialsResponse:
    """Return mechanisms and iterations of the named users; of all that have credentials if none is named."""
    m = messages.describe_user_scram_credentials_response
    counts = await context.portions.finish(_count_names(request))
    pace = context.portions.pace()
    results = []
    for user in counts or await _all_users(parts):
        await pace.unit()
        result = m.DescribeUserScramCredentialsResult(user=user, error_message="")
        try:
            if counts[user] > 1:
                message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, message)
            result.credential_infos = [
                m.CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
                for mechanism, credential in (await _read_credentials(parts, user)).items()
            ]
        except KafkaError as problem:
            if not counts and problem.code is ErrorCode.RESOURCE_NOT_FOUND:
                continue
            result.error_code, result.error_message = problem.code, problem.message
        results.append(result)
    return m.DescribeUserScramCredentialsResponse(error_message="", results=results)


def _count_names(request: messages.DescribeUserScramCredentialsRequest) -> Work[Counter[str]]:
    counts: Counter[str] = Counter()
    for each in request.users or ():
        yield
        counts[each.name] += 1
    return counts


async def _all_users(parts: Parts) -> list[str]:
    try:
        znodes = await parts.store.children(paths.CONFIG_USERS)
    except NoNodeError:
        return []
    entities = [entity_of("users", each) for each in znodes]
    return sorted(each.user for each in entities if each is not None and isinstance(each.user, str))


async def _read_credentials(parts: Parts, user: str) -> dict[ScramMechanism, ScramCredential]:
    """Return the credentials of a user. Raises KafkaError if there are none or they cannot be read."""
    if not user:
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, NO_USER_NAME)
    try:
        found = credentials_in(await parts.dynamic_configs.read(paths.config(_path(user))))
    except ValueError as problem:
        logger.error("user %s: %s", user, problem)
        message = "The server experienced an unexpected error when processing the request."
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message) from None
    if not found:
        message = f"Attempt to describe a user credential that does not exist: {user}"
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, message)
    return found


async def alter_user_scram_credentials(
    parts: Parts, request: messages.AlterUserScramCredentialsRequest, context: RequestContext
) -> messages.AlterUserScramCredentialsResponse:
    """Set and delete credentials, and return the outcome of each user, refused ones first."""
    m = messages.alter_user_scram_credentials_response
    if not parts.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, NOT_CONTROLLER_MESSAGE)
    refused, changes = await context.portions.finish(judge(request))
    done = []
    pace = context.portions.pace()
    for user, change in changes.items():
        await pace.unit()
        try:
            await parts.dynamic_configs.change(_path(user), change.apply, lambda settings: None, False)
            done.append(m.AlterUserScramCredentialsResult(user=user, error_message=""))
        except KafkaError as problem:
            refused[user] = problem.as_outcome()
    failed = [
        m.AlterUserScramCredentialsResult(user=user, error_code=problem.code, error_message=problem.message)
        for user, problem in refused.items()
    ]
    return m.AlterUserScramCredentialsResponse(results=[*failed, *done])


def _path(user: str) -> str:
    return entity_path(QuotaEntity(user))


def _alteration_failed(
    request: messages.AlterUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> messages.AlterUserScramCredentialsResponse:
    m = messages.alter_user_scram_credentials_response
    return m.AlterUserScramCredentialsResponse(
        results=[
            m.AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)
            for user in users_of(request)
        ]
    )


APIS: Final = (
    serve_api(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        0,
        describe_user_scram_credentials,
        DESCRIBE_CLUSTER,
        failure=FailedItems(),
    ),
    serve_api(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        0,
        alter_user_scram_credentials,
        ALTER_CLUSTER,
        failure=_alteration_failed,
    ),
)
