"""Timers that are mostly put off, and the partitions that groups belong to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.coordinators.placement import partition_for
from kafkalite.coordinators.timers import TimerQueue


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
        next_ms = timers.next_ms()
        assert not expected or (next_ms is not None and next_ms <= min(expected.values()))


def test_partitions_of_groups() -> None:
    assert partition_for("hello", 50) == 99162322 % 50
    assert partition_for("polygenelubricants", 50) == 0
