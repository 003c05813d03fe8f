"""Who may connect: bounds by address, of the whole broker, and of the rate."""

from __future__ import annotations

from kafkalite.broker.connections.connection_quotas import Admission, ConnectionQuotas
from kafkalite.broker.settings.quotas import DEFAULT, ConnectionRateQuota, QuotaEntity
from tests.unit.broker.broker_settings import broker_config, live_config

TWO_LISTENERS = {
    "listeners": "IN://:1,OUT://:2",
    "listener_security_protocol_map": "IN:PLAINTEXT,OUT:PLAINTEXT",
    "inter_broker_listener_name": "IN",
}


def refusals(quotas: ConnectionQuotas, *hosts: str) -> list[bool]:
    return [bool(quotas.admit("PLAINTEXT", host, 0.0).refusal) for host in hosts]


def test_an_address_has_its_own_bound_or_that_of_all() -> None:
    live = live_config(max_connections_per_ip=1, max_connections_per_ip_overrides="10.0.0.1:2, ::1:0, friend:3")
    quotas = ConnectionQuotas(live)
    quotas.names = {"10.0.0.9": "friend"}
    assert refusals(quotas, "10.0.0.1", "10.0.0.1", "10.0.0.1") == [False, False, True]
    assert refusals(quotas, "::1") == [True]
    assert refusals(quotas, "10.0.0.9", "10.0.0.9", "10.0.0.9", "10.0.0.9") == [False, False, False, True]
    assert refusals(quotas, "10.0.0.2", "10.0.0.2") == [False, True]
    quotas.remove("10.0.0.2")
    quotas.remove("10.0.0.2")
    assert refusals(quotas, "10.0.0.2") == [False]


def test_the_bound_of_the_whole_broker_spares_the_listener_of_the_brokers() -> None:
    quotas = ConnectionQuotas(live_config(max_connections=1, **TWO_LISTENERS))
    assert quotas.admit("OUT", "a", 0) == Admission()
    assert quotas.admit("OUT", "b", 0).refusal
    quotas.remove("b")
    assert quotas.admit("IN", "c", 0) == Admission(displaces=True)


def test_with_one_listener_nobody_is_spared() -> None:
    quotas = ConnectionQuotas(live_config(max_connections=1))
    assert refusals(quotas, "a", "b") == [False, True]


def test_connections_beyond_the_rate_are_held_back_but_for_brokers() -> None:
    live = live_config(max_connection_creation_rate=1, quota_window_num=2, **TWO_LISTENERS)
    quotas = ConnectionQuotas(live)
    assert [quotas.admit("OUT", "a", 0.0).hold_ms for _ in range(3)] == [0, 1000, 2000]
    assert quotas.admit("IN", "a", 0.0) == Admission()
    live.replace(broker_config(max_connection_creation_rate=100, **TWO_LISTENERS))
    assert quotas.admit("OUT", "a", 0.0) == Admission()


def test_an_address_opens_no_more_connections_than_its_quota() -> None:
    """KIP-612: its own, or the default, which each address has for itself. Brokers are spared, where they have a listener."""
    opened = ConnectionRateQuota("connection_creation_rate", 2, 1000.0)
    quotas = ConnectionQuotas(live_config(**TWO_LISTENERS), opened)
    assert not any(quotas.admit("OUT", "10.0.0.1", 0.0).hold_ms for _ in range(50)), "nobody has a quota"
    opened.take(QuotaEntity(ip=DEFAULT), {"connection_creation_rate": 2.0})
    opened.take(QuotaEntity(ip="10.0.0.9"), {"connection_creation_rate": 1.0})
    opened.take(QuotaEntity(user="10.0.0.9"), {"connection_creation_rate": 100.0})
    assert [quotas.admit("OUT", "10.0.0.9", 0.0).hold_ms for _ in range(3)] == [0, 1000, 2000]
    for address in ("10.0.0.2", "10.0.0.3"):
        assert [quotas.admit("OUT", address, 0.0).hold_ms for _ in range(3)] == [0, 0, 500]
    assert quotas.admit("IN", "10.0.0.9", 0.0) == Admission()
    opened.take(QuotaEntity(ip=DEFAULT), {})
    assert not quotas.admit("OUT", "10.0.0.2", 0.0).hold_ms
