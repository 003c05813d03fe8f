"""Client quotas: what is asked, and what becomes of the answers."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.client import AdminError, ClientQuota, QuotaEntity, QuotaFilter
from kafkalite.client.errors import ClientError
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.unit.client.admin.test_partition_admin import ask
from tests.unit.client.fake_broker import FakeCluster

ALICE, ANYBODY = QuotaEntity((("user", "alice"), ("client-id", None))), QuotaEntity((("ip", None),))


def described(*entries: tuple[QuotaEntity, dict[str, float]], code: int = 0) -> Any:
    m = messages.describe_client_quotas_response
    return m.DescribeClientQuotasResponse(
        error_code=code,
        entries=[
            m.EntryData(
                entity=[m.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts],
                values=[m.ValueData(key=key, value=value) for key, value in quotas.items()],
            )
            for entity, quotas in entries
        ],
    )


def altered(*codes: int) -> Any:
    m = messages.alter_client_quotas_response
    return m.AlterClientQuotasResponse(
        entries=[m.EntryData(error_code=code, error_message="why", entity=[]) for code in codes]
    )


def test_quotas_are_found_by_filters() -> None:
    cluster = FakeCluster({})
    cluster.script[ApiKey.DESCRIBE_CLIENT_QUOTAS].append(
        described((ALICE, {"producer_byte_rate": 2.0, "consumer_byte_rate": 1.0}), (ANYBODY, {"x": 3.0}))
    )
    filters = [QuotaFilter("user", "alice"), QuotaFilter("client-id"), QuotaFilter("ip", any_name=True)]
    found = ask(cluster, lambda admin: admin.describe_client_quotas(filters, strict=True))
    assert found == [
        ClientQuota(ANYBODY, {"x": 3.0}),
        ClientQuota(ALICE, {"consumer_byte_rate": 1.0, "producer_byte_rate": 2.0}),
    ]
    assert found[1].to_dict() == {
        "entity": [{"type": "user", "name": "alice"}, {"type": "client-id", "name": None}],
        "quotas": {"consumer_byte_rate": 1.0, "producer_byte_rate": 2.0},
    }
    (request,) = cluster.requests_of(ApiKey.DESCRIBE_CLIENT_QUOTAS)
    asked = [(each.entity_type, each.match_type, each.match) for each in request.components]
    assert asked == [("user", 0, "alice"), ("client-id", 1, None), ("ip", 2, None)] and request.strict


def test_quotas_are_set_and_removed() -> None:
    cluster = FakeCluster({})
    cluster.script[ApiKey.ALTER_CLIENT_QUOTAS].append(altered(0, ErrorCode.INVALID_REQUEST))
    changes: dict[QuotaEntity, dict[str, float | None]] = {
        ALICE: {"producer_byte_rate": 5.0, "consumer_byte_rate": None},
        ANYBODY: {"what": 1.0},
    }
    with pytest.raises(AdminError) as caught:
        ask(cluster, lambda admin: admin.alter_client_quotas(changes, validate_only=True))
    assert list(caught.value.failures) == ["default ip"] and "why" in str(caught.value)
    (request,) = cluster.requests_of(ApiKey.ALTER_CLIENT_QUOTAS)
    first = request.entries[0]
    assert [(each.entity_type, each.entity_name) for each in first.entity] == [("user", "alice"), ("client-id", None)]
    assert [(op.key, op.value, op.remove) for op in first.ops] == [
        ("producer_byte_rate", 5.0, False),
        ("consumer_byte_rate", 0.0, True),
    ]
    assert request.validate_only


def test_an_entity_is_the_same_in_any_order_and_says_what_it_is() -> None:
    other = QuotaEntity((("client-id", None), ("user", "alice")))
    assert other == ALICE and str(other) == "user alice, default client-id"
    with pytest.raises(ValueError, match="'group'"):
        QuotaEntity((("group", "g"),))


def test_a_refusal_is_raised() -> None:
    cluster = FakeCluster({})
    cluster.script[ApiKey.DESCRIBE_CLIENT_QUOTAS].append(described(code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    with pytest.raises(ClientError) as caught:
        ask(cluster, lambda admin: admin.describe_client_quotas())
    assert caught.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
