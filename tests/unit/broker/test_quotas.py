"""Whose quota counts for a client, and what happens to one that exceeds it."""

from __future__ import annotations

import pytest

from kafkalite.broker.quotas import (
    CONSUMER_BYTE_RATE,
    DEFAULT,
    PRODUCER_BYTE_RATE,
    ByteRateQuota,
    ClientQuotas,
    QuotaEntity,
    quota_text,
)
from kafkalite.errors import ErrorCode, KafkaError

IN_ORDER = [
    QuotaEntity("u", "c"),
    QuotaEntity("u", DEFAULT),
    QuotaEntity("u"),
    QuotaEntity(DEFAULT, "c"),
    QuotaEntity(DEFAULT, DEFAULT),
    QuotaEntity(DEFAULT),
    QuotaEntity(client_id="c"),
    QuotaEntity(client_id=DEFAULT),
]


def quota(*entities: tuple[QuotaEntity, float]) -> ByteRateQuota:
    made = ByteRateQuota(PRODUCER_BYTE_RATE, 11, 1000)
    for entity, bound in entities:
        made.take(entity, {PRODUCER_BYTE_RATE: bound})
    return made


def test_the_most_specific_entity_that_has_the_key_counts() -> None:
    made = quota(*((entity, float(number)) for number, entity in enumerate(IN_ORDER)))
    for number, entity in enumerate(IN_ORDER):
        assert made.bound("u", "c") == number
        made.take(entity, {CONSUMER_BYTE_RATE: 1.0})
    assert made.bound("u", "c") is None
    assert not made.is_set


def test_a_quota_of_somebody_else_does_not_count() -> None:
    made = quota((QuotaEntity("u", "c"), 1.0), (QuotaEntity(client_id="d"), 2.0))
    assert made.bound("u", "x") is None
    assert made.bound("v", "d") == 2.0
    assert made.charge("u", "x", 10**9, 0) == 0


def test_a_default_is_given_to_each_client_on_its_own() -> None:
    made = quota((QuotaEntity(client_id=DEFAULT), 1000.0))
    assert made.charge("u", "c", 11_000, 0) == 1000
    assert made.charge("u", "d", 10_000, 0) == 0


def test_the_clients_of_a_user_share_the_quota_of_the_user() -> None:
    made = quota((QuotaEntity("u"), 1000.0))
    assert made.charge("u", "c", 10_000, 0) == 0
    assert made.charge("u", "d", 1000, 0) == 1000
    assert made.charge("v", "d", 99_000, 0) == 0


def test_what_is_refused_is_not_counted() -> None:
    made = quota((QuotaEntity(client_id="c"), 1000.0))
    assert made.admit("u", "c", 10_000, 0) == 0
    assert made.admit("u", "c", 2000, 0) == 2000
    assert made.admit("u", "c", 2000, 10_500) == 1500
    assert made.admit("u", "c", 2000, 11_000) == 0


def test_a_batch_larger_than_a_whole_window_is_delivered_once_the_client_was_silent() -> None:
    """Else it would never be delivered, and the consumer would ask for it for ever."""
    made = quota((QuotaEntity(client_id="c"), 1000.0))
    assert made.most_bytes("u", "c") == 10_000
    assert made.admit("u", "c", 50_000, 0) == 0
    assert made.admit("u", "c", 1, 0) > 0


def test_an_ip_has_no_byte_rate() -> None:
    made = quota((QuotaEntity(ip="127.0.0.1"), 1.0))
    assert not made.is_set


def test_clients_that_are_gone_are_forgotten() -> None:
    made = quota((QuotaEntity(client_id=DEFAULT), 1000.0))
    for number in range(3000):
        made.charge("u", f"c{number}", 1, number * 20_000)
    assert len(made._rates) <= 1025


def test_both_byte_rates() -> None:
    quotas = ClientQuotas(11, 1)
    quotas.take(QuotaEntity("u"), {PRODUCER_BYTE_RATE: 5.0, CONSUMER_BYTE_RATE: 7.0, "request_percentage": 1.0})
    assert (quotas.produced.bound("u", ""), quotas.fetched.bound("u", "")) == (5.0, 7.0)
    quotas.take(QuotaEntity("u"), {})
    assert not quotas.produced.is_set and not quotas.fetched.is_set


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (PRODUCER_BYTE_RATE, 1e6, "1000000"),
        (PRODUCER_BYTE_RATE, 12345678901.0, "12345678901"),
        ("request_percentage", 200.0, "200.0"),
        ("request_percentage", 0.5, "0.5"),
        ("controller_mutation_rate", 1e7, "1.0E7"),
        ("controller_mutation_rate", 12345678.5, "1.23456785E7"),
        ("controller_mutation_rate", 0.0005, "5.0E-4"),
    ],
)
def test_values_are_kept_as_java_writes_them(key: str, value: float, text: str) -> None:
    assert quota_text(QuotaEntity("u"), key, value) == text


@pytest.mark.parametrize(
    ("entity", "key", "value", "said"),
    [
        (QuotaEntity("u"), "no.such", 1.0, "Invalid configuration key no.such"),
        (QuotaEntity("u"), PRODUCER_BYTE_RATE, 1.5, "Configuration producer_byte_rate must be a LONG value"),
        (QuotaEntity("u"), PRODUCER_BYTE_RATE, float("nan"), "Configuration producer_byte_rate must be a LONG value"),
        (QuotaEntity("u"), "connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
        (QuotaEntity(ip="::1"), PRODUCER_BYTE_RATE, 1.0, "Invalid configuration key producer_byte_rate"),
        (
            QuotaEntity(ip="::1"),
            "connection_creation_rate",
            -1.0,
            "Configuration connection_creation_rate must be a INT value",
        ),
    ],
)
def test_values_that_a_key_does_not_take(entity: QuotaEntity, key: str, value: float, said: str) -> None:
    with pytest.raises(KafkaError) as caught:
        quota_text(entity, key, value)
    assert (caught.value.code, str(caught.value)) == (ErrorCode.INVALID_REQUEST, said)
