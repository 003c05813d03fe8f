"""What a broker without authorizer, authentication and features answers to administrators."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkalite.broker.handlers import SERVED
from kafkalite.broker.handlers.delegation_tokens import create_delegation_token
from kafkalite.broker.handlers.sasl import sasl_authenticate, sasl_handshake
from kafkalite.broker.handlers.update_features import update_features
from kafkalite.errors import ErrorCode, KafkaError, ProtocolViolation
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.unit.broker.memory_parts import FakeController, MemoryParts, context_of

PARTS: Any = MemoryParts()
PARTS.controller = FakeController()
CONTEXT = context_of(0)
ANY_ACL = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
ACL = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}


def test_acls_are_refused() -> None:
    async def scenario() -> None:
        described = await PARTS.ask(messages.describe_acls_request.DescribeAclsRequest(**ANY_ACL), 3)
        assert (described.error_code, described.error_message) == (
            ErrorCode.SECURITY_DISABLED,
            "No Authorizer is configured on the broker",
        )
        c, d = messages.create_acls_request, messages.delete_acls_request
        created = await PARTS.ask(c.CreateAclsRequest(creations=[c.AclCreation(**ACL)] * 2), 3)
        deleted = await PARTS.ask(d.DeleteAclsRequest(filters=[d.DeleteAclsFilter(**ANY_ACL)] * 2), 3)
        refused = [(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")] * 2
        assert [(each.error_code, each.error_message) for each in created.results] == refused
        assert [(each.error_code, each.error_message) for each in deleted.filter_results] == refused

    asyncio.run(scenario())


@pytest.mark.parametrize("part", ANY_ACL)
def test_a_filter_with_an_unknown_part_closes_the_connection(part: str) -> None:
    async def scenario() -> None:
        d = messages.delete_acls_request
        with pytest.raises(ProtocolViolation):
            await PARTS.ask(messages.describe_acls_request.DescribeAclsRequest(**{**ANY_ACL, part: 0}), 3)
        with pytest.raises(ProtocolViolation):
            await PARTS.ask(d.DeleteAclsRequest(filters=[d.DeleteAclsFilter(**{**ANY_ACL, part: 0})]), 3)

    asyncio.run(scenario())


@pytest.mark.parametrize("part", ACL)
def test_an_acl_with_an_unknown_part_closes_the_connection(part: str) -> None:
    c = messages.create_acls_request
    with pytest.raises(ProtocolViolation):
        asyncio.run(PARTS.ask(c.CreateAclsRequest(creations=[c.AclCreation(**{**ACL, part: 0})]), 3))


def test_who_is_authenticated_already_is_told_so() -> None:
    h, a = messages.sasl_handshake_request, messages.sasl_authenticate_request
    shaken = sasl_handshake(PARTS, h.SaslHandshakeRequest(mechanism="PLAIN"), CONTEXT)
    assert (shaken.error_code, shaken.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    answer = sasl_authenticate(PARTS, a.SaslAuthenticateRequest(auth_bytes=b"x"), CONTEXT)
    assert (answer.error_code, bytes(answer.auth_bytes)) == (ErrorCode.ILLEGAL_SASL_STATE, b"")


def test_groups_of_the_new_protocol_are_refused() -> None:
    async def scenario() -> None:
        h, d = messages.consumer_group_heartbeat_request, messages.consumer_group_describe_request
        beaten = await PARTS.ask(h.ConsumerGroupHeartbeatRequest(group_id="g"), 0)
        assert beaten.error_code == ErrorCode.UNSUPPORTED_VERSION
        described = await PARTS.ask(d.ConsumerGroupDescribeRequest(group_ids=["g", "h"]), 0)
        codes = [(each.group_id, each.error_code) for each in described.groups]
        assert codes == [("g", ErrorCode.UNSUPPORTED_VERSION), ("h", ErrorCode.UNSUPPORTED_VERSION)]
        with pytest.raises(ProtocolViolation, match="envelope"):
            await PARTS.ask(messages.envelope_request.EnvelopeRequest(), 0)

    asyncio.run(scenario())


@pytest.mark.parametrize("owner", [None, "", "alice"])
def test_tokens_are_refused_with_the_names_of_those_concerned(owner: str | None) -> None:
    m = messages.create_delegation_token_request
    request = m.CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name=owner)
    reply = asyncio.run(create_delegation_token(PARTS, request, CONTEXT))
    assert reply.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert (reply.principal_name, reply.token_requester_principal_name) == (owner or "ANONYMOUS", "ANONYMOUS")


@pytest.mark.parametrize(
    ("update", "said"),
    [
        ({"feature": "", "max_version_level": 1}, "Feature name can not be empty."),
        ({"feature": "f", "max_version_level": 1, "upgrade_type": 9}, "Received unknown upgrade type."),
        (
            {"feature": "f", "max_version_level": 0},
            "Can not provide versionLevel: 0 less than 1 without setting the SAFE downgradeType in the request.",
        ),
        (
            {"feature": "f", "max_version_level": 0, "upgrade_type": 3},
            "Can not delete non-existing finalized feature.",
        ),
        (
            {"feature": "f", "max_version_level": 0, "allow_downgrade": True},
            "Can not delete non-existing finalized feature.",
        ),
        (
            {"feature": "f", "max_version_level": 1, "upgrade_type": 2},
            "Could not apply finalized feature update because the provided feature is not supported.",
        ),
    ],
)
def test_no_feature_can_be_updated(update: dict[str, Any], said: str) -> None:
    m = messages.update_features_request
    request = m.UpdateFeaturesRequest(feature_updates=[m.FeatureUpdateKey(**update)] * 2)
    (result,) = update_features(PARTS, request, CONTEXT).results
    assert (result.feature, result.error_code, result.error_message) == (
        update["feature"],
        ErrorCode.INVALID_REQUEST,
        said,
    )


def test_features_are_the_controllers_business() -> None:
    elsewhere: Any = MemoryParts()
    elsewhere.controller = FakeController(is_active=False)
    with pytest.raises(KafkaError) as caught:
        update_features(elsewhere, messages.update_features_request.UpdateFeaturesRequest(), CONTEXT)
    assert caught.value.code is ErrorCode.NOT_CONTROLLER


def test_a_failure_is_told_for_each_item() -> None:
    c, d, t = messages.create_acls_request, messages.delete_acls_request, messages.describe_transactions_request
    requests = {
        ApiKey.CREATE_ACLS: (c.CreateAclsRequest(creations=[c.AclCreation()] * 2), "results"),
        ApiKey.DELETE_ACLS: (d.DeleteAclsRequest(filters=[d.DeleteAclsFilter()] * 2), "filter_results"),
        ApiKey.DESCRIBE_TRANSACTIONS: (
            t.DescribeTransactionsRequest(transactional_ids=["a", "b"]),
            "transaction_states",
        ),
    }
    for key, (request, items) in requests.items():
        (failure,) = (each.failure for each in SERVED if each.api.key == key)
        reply: Any = failure(request, ErrorCode.UNKNOWN_SERVER_ERROR, "sorry")
        assert [each.error_code for each in getattr(reply, items)] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
