"""Rates over a sliding window: Kafka's two ways to measure one that has just begun."""

from __future__ import annotations

import pytest

from kafkalite.broker.settings.rates import ClientRate, ReplicationRate, is_throttled


def test_a_client_is_judged_over_a_whole_window_from_its_first_byte() -> None:
    rate = ClientRate(11, 1000)
    rate.add(10_000, 0)
    assert rate.throttle_ms(1000, 0) == 0, "ten seconds' worth at once is within a window of eleven samples"
    rate.add(500, 0)
    assert rate.throttle_ms(1000, 0) == 500


def test_the_throttle_time_is_what_brings_the_rate_down_to_the_bound() -> None:
    rate = ClientRate(3, 1000)
    rate.add(5000, 100)
    throttle_ms = rate.throttle_ms(2000, 100)
    assert throttle_ms == 500, "5000 bytes are 500 ms more than what the two samples before would have allowed"
    assert rate.throttle_ms(2000, 100 + throttle_ms) == 0
    assert rate.throttle_ms(2000, 50 + throttle_ms) == 50


def test_bytes_older_than_the_window_count_no_more() -> None:
    rate = ClientRate(3, 1000)
    rate.add(9000, 0)
    assert not rate.is_idle(2999)
    assert rate.is_idle(3000)
    assert rate.throttle_ms(1, 3000) == 0


def test_what_was_counted_can_be_taken_back() -> None:
    rate = ClientRate(3, 1000)
    rate.add(9000, 0)
    rate.add(-9000, 0)
    assert rate.is_idle(0)


def test_a_bound_of_nothing_silences_for_long() -> None:
    rate = ClientRate(3, 1000)
    rate.add(1, 0)
    assert rate.throttle_ms(0, 0) > 60_000


def test_replication_is_judged_over_one_sample_at_first() -> None:
    rate = ReplicationRate(11, 1000, lambda: 1000)
    rate.add(1000, 0)
    assert not rate.is_exceeded(0)
    rate.add(500, 10)
    assert rate.exceeded_ms(10) == pytest.approx(500)
    assert not rate.is_exceeded(1500)


def test_the_bound_of_replication_may_change() -> None:
    bound = 1000
    rate = ReplicationRate(11, 1000, lambda: bound)
    rate.add(5000, 0)
    assert rate.is_exceeded(0)
    bound = 5000
    assert not rate.is_exceeded(0)


def test_in_the_long_run_replication_gets_its_bound() -> None:
    rate = ReplicationRate(11, 1000, lambda: 1000)
    sent = 0
    for now_ms in range(0, 60_000, 50):
        if not rate.is_exceeded(now_ms):
            rate.add(400, now_ms)
            sent += 400
    assert sent == pytest.approx(60_000, rel=0.1)


@pytest.mark.parametrize(
    ("entries", "partition", "broker", "throttled"),
    [((), 0, 1, False), (("*",), 4, 9, True), (("0:1", "3:12"), 3, 12, True), (("0:1", "3:12"), 3, 1, False)],
)
def test_which_replicas_are_throttled(entries: tuple[str, ...], partition: int, broker: int, throttled: bool) -> None:
    assert is_throttled(entries, partition, broker) is throttled
