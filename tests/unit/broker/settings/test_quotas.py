"""Whose quota counts for a client, and what happens to one that exceeds it."""

from __future__ import annotations

import pytest

from kafkalite.broker.settings.quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
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


ENTITIES = dict(
    zip(
        ("u", "U*", "c", "C*", "uc", "uC*", "U*c", "U*C*"),
        (
            QuotaEntity("u"),
            QuotaEntity(DEFAULT),
            QuotaEntity(client_id="c"),
            QuotaEntity(client_id=DEFAULT),
            QuotaEntity("u", "c"),
            QuotaEntity("u", DEFAULT),
            QuotaEntity(DEFAULT, "c"),
            QuotaEntity(DEFAULT, DEFAULT),
        ),
        strict=True,
    )
)
"""Users and clients by name (u, c), and the defaults of all (U*, C*)."""
CLIENTS = ("", "c", "other")
TRUTH = """
      none u    U*   c    C*   uc   uC*  U*c  U*C*
u     TTT  ---  TTT  TTT  TTT  T.T  T..  TTT  TTT
U*    TTT  ...  ---  TTT  TTT  T.T  T..  T.T  T..
c     .T.  ...  ...  ---  .T.  ...  ...  ...  ...
C*    .TT  ...  ...  ..T  ---  ..T  ...  ..T  ...
uc    .T.  .T.  .T.  .T.  .T.  ---  .T.  .T.  .T.
uC*   .TT  .TT  .TT  .TT  .TT  ..T  ---  .TT  .TT
U*c   .T.  ...  .T.  .T.  .T.  ...  ...  ---  .T.
U*C*  .TT  ...  .TT  .TT  .TT  ..T  ...  ..T  ---
"""
"""Who is throttled (T) by Apache Kafka 3.9.1: a user's clients without an id (null and empty are the same), c, and another one, where the
entity of the row has a low quota and the one of the column a high one."""


def test_whose_quota_counts_is_as_in_apache_kafka() -> None:
    """A client without an id is nobody's client: it has the quota of its user, if that has one."""
    (_, *columns), *rows = (line.split() for line in TRUTH.strip().splitlines())
    columns = ["none", *columns]
    for low, *outcomes in rows:
        for high, outcome in zip(columns, outcomes, strict=True):
            if outcome == "---":
                continue
            made = quota((ENTITIES[low], 1.0), *([(ENTITIES[high], 1e9)] if high != "none" else []))
            throttled = "".join("T" if made.charge("u", client, 20_000, 0) else "." for client in CLIENTS)
            assert throttled == outcome, f"{low} is low, {high} is high"


def test_clients_without_an_id_share_the_quota_of_their_user_and_have_no_other() -> None:
    made = quota(*((entity, 1.0) for name, entity in ENTITIES.items() if name not in ("u", "U*")))
    assert made.bound("u", "") is None and made.most_bytes("u", "") is None
    assert made.admit("u", "", 10**9, 0) == 0
    made.take(QuotaEntity(DEFAULT), {PRODUCER_BYTE_RATE: 1000.0})
    assert (made.bound("u", ""), made.bound("u", "c")) == (1000.0, 1.0)
    assert made.charge("u", "", 11_000, 0) == 1000
    made.take(QuotaEntity("u"), {PRODUCER_BYTE_RATE: 2000.0})
    assert made.bound("u", "") == 2000.0


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
    quotas = ClientQuotas()
    quotas.take(QuotaEntity("u"), {PRODUCER_BYTE_RATE: 5.0, CONSUMER_BYTE_RATE: 7.0, "request_percentage": 1.0})
    assert (quotas.produced.bound("u", ""), quotas.fetched.bound("u", "")) == (5.0, 7.0)
    quotas.take(QuotaEntity("u"), {})
    assert not quotas.produced.is_set and not quotas.fetched.is_set


class Mutating:
    """A client with two partitions a second, of which 22 come in all samples together."""

    def __init__(self, *, is_strict: bool) -> None:
        self.now_ms, self.is_strict = 0.0, is_strict
        self.quota = ClientQuotas().mutations
        self.quota.take(QuotaEntity(client_id="c"), {CONTROLLER_MUTATION_RATE: 2.0})

    def asks_for(self, *partitions: int) -> tuple[list[bool], int]:
        """(which were allowed, how long it is silenced)."""
        mutations = self.quota.of("u", "c", lambda: self.now_ms, is_strict=self.is_strict)
        assert mutations is not None
        allowed = []
        for each in partitions:
            try:
                mutations.charge(each)
                allowed.append(True)
            except KafkaError as problem:
                assert problem.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
                allowed.append(False)
        return allowed, mutations.throttle_ms()


def test_a_strict_quota_of_mutations_refuses_while_there_is_a_debt() -> None:
    client = Mutating(is_strict=True)
    assert client.asks_for(22, 3, 1) == ([True, True, False], 1500), "who finds none, but no debt, may have any number"
    client.now_ms = 1000
    assert client.asks_for(1) == ([False], 500)
    client.now_ms = 1500
    assert client.asks_for(4) == ([True], 0), "who was not refused is not silenced"
    client.now_ms = 100_000
    assert client.asks_for(22) == ([True], 0), "no more than all samples hold"
    assert client.asks_for(1, 1) == ([True, False], 500)
    assert (client.quota.throttled, client.quota.throttled_ms) == (3, 2500)


def test_a_permissive_quota_of_mutations_only_silences() -> None:
    client = Mutating(is_strict=False)
    assert client.asks_for(22) == ([True], 0)
    assert client.asks_for(3, 1) == ([True, True], 2000)
    client.now_ms = 1000
    assert client.asks_for(1) == ([True], 1500)


def test_who_has_no_quota_of_mutations_is_not_counted() -> None:
    client = Mutating(is_strict=True)
    assert client.quota.of("u", "d", lambda: 0.0, is_strict=True) is None
    client.quota.take(QuotaEntity(client_id="c"), {})
    assert client.quota.of("u", "c", lambda: 0.0, is_strict=True) is None


def test_buckets_of_clients_that_are_gone_are_forgotten() -> None:
    client = Mutating(is_strict=True)
    client.quota.take(QuotaEntity(client_id=DEFAULT), {CONTROLLER_MUTATION_RATE: 1.0})
    for number in range(3000):
        mutations = client.quota.of("u", f"c{number}", lambda: number * 1000.0, is_strict=True)  # noqa: B023
        assert mutations is not None
        mutations.charge(1)
    assert len(client.quota._buckets) <= 1025


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
