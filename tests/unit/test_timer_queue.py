"""Timers that are mostly put off, and few of which fire."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.timer_queue import TimerQueue


def test_a_timer_that_is_put_off_again_and_again_takes_no_room() -> None:
    timers: TimerQueue[str] = TimerQueue()
    for now_ms in range(100_000):
        timers.set("session", now_ms + 10_000)
    assert len(timers._heap) == 1
    assert timers.pop_due(109_998) == [] and timers.pop_due(109_999) == ["session"]


def test_a_timer_may_be_brought_forward_and_cancelled() -> None:
    timers: TimerQueue[str] = TimerQueue()
    timers.set("a", 100)
    timers.set("b", 50)
    timers.set("a", 10)
    assert timers.pop_due(10) == ["a"]
    timers.cancel("b")
    assert timers.pop_due(1000) == [] and timers.next_ms() is None


def test_some_of_those_that_are_due_are_taken_the_earliest_ones_first() -> None:
    timers: TimerQueue[str] = TimerQueue()
    for key, due_ms in (("c", 3.0), ("a", 1.0), ("never", float("inf")), ("b", 2.0)):
        timers.set(key, due_ms)
    assert timers.pop_due(10.0, 2) == ["a", "b"] and "b" not in timers and timers.next_ms() == 3.0
    assert timers.pop_due(1e18) == ["c"]
    assert "never" in timers and timers.due_ms("never") == timers.next_ms() == float("inf")


def test_timers_that_are_cancelled_or_brought_forward_leave_no_memory() -> None:
    timers: TimerQueue[int] = TimerQueue()
    for number in range(10_000):
        timers.set(number, 1_000_000 + number)
        timers.cancel(number)
        timers.set(-1, 20_000 - number)
    assert len(timers) == 1 and len(timers._heap) < 100 and len(timers._pushed_ms) < 100
    assert timers.pop_due(10_001) == [-1] and timers.next_ms() is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20) | st.none(), st.integers(0, 3))))
def test_timers_ring_once_and_never_early(steps: list[tuple[str, int | None, int]]) -> None:
    timers: TimerQueue[str] = TimerQueue()
    expected: dict[str, int] = {}
    now_ms = 0
    for key, delay_ms, passing_ms in steps:
        if delay_ms is None:
            timers.cancel(key)
            expected.pop(key, None)
        else:
            timers.set(key, now_ms + delay_ms)
            expected[key] = now_ms + delay_ms
        now_ms += passing_ms
        due = {name for name, due_ms in expected.items() if due_ms <= now_ms}
        assert set(timers.pop_due(now_ms)) == due
        for name in due:
            del expected[name]
        assert timers.next_ms() == (min(expected.values()) if expected else None)
