"""What is told of a reading: rate and time left without what an earlier run has read, on terminals and in logs."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

import pytest

from spark_jobs.observation.progress import (
    Course,
    ProgressBoard,
    describe_duration,
    describe_end,
    describe_progress,
    open_board,
)

TIMEOUT_S = 30.0


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (187, "3 min 7 s"),
        (3599.6, "1 h 0 min"),
        (90_061, "25 h 1 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert describe_duration(seconds) == text


def test_rate_and_time_left() -> None:
    line = describe_progress("archive of t 2013-06-15", 100_000_000, 40_000_000, 0, 100.0)
    assert line == "archive of t 2013-06-15: 40,000,000 of 100,000,000 offsets (40 %), 400,000/s, about 2 min 30 s left"


def test_what_an_earlier_run_has_read_does_not_make_this_one_faster() -> None:
    line = describe_progress("a", 100, 60, 50, 10.0)
    assert line == "a: 60 of 100 offsets (60 %), 1/s, about 40 s left"


@pytest.mark.parametrize("done, elapsed_s", [(50, 10.0), (50, 0.0)])
def test_no_rate_before_anything_is_read(done: int, elapsed_s: float) -> None:
    assert describe_progress("a", 100, done, 50, elapsed_s) == "a: 50 of 100 offsets (50 %)"
    assert describe_progress("a", 0, 0, 0, 1.0) == "a: 0 of 0 offsets (100 %)"


def test_the_end() -> None:
    assert describe_end("a", 3000, 60.0) == "a: 3,000 offsets read in 1 min 0 s, 50/s"
    assert describe_end("a", 0, 0.0) == "a: 0 offsets read in 0 s"


def test_a_course_counts_what_is_at_work_once() -> None:
    course = Course("a", 100, kept=20)
    assert course.done == 20
    with course.reading(lambda: 15):
        assert course.done == 35
    course.add_done(30)
    assert course.done == 50
    with pytest.raises(RuntimeError), course.reading(lambda: 500):
        assert course.done == 100, "a task that was run twice does not count beyond the end"
        raise RuntimeError
    assert course.done == 50


def watch(board: ProgressBoard, told: Callable[[], bool]) -> None:
    """Watch a reading until something was told."""
    course = Course("a", 100)
    with course.reading(lambda: 10), board.watch(course):
        deadline = threading.Event()
        for _ in range(int(TIMEOUT_S * 100)):
            if told() or deadline.wait(0.01):
                return
    raise AssertionError("nothing was told")


def test_a_log_gets_lines() -> None:
    lines: list[str] = []
    watch(ProgressBoard(lines.append, interval_s=0.001), lambda: bool(lines))
    assert lines[0].startswith("a: 10 of 100 offsets (10 %), ")


def test_a_terminal_has_one_line_that_is_gone_at_the_end() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    lines: list[str] = []
    terminal = Terminal()
    assert open_board(lines.append, terminal).terminal is terminal
    watch(ProgressBoard(lines.append, terminal, interval_s=0.001), lambda: bool(terminal.getvalue()))
    assert terminal.getvalue().startswith("\r\x1b[2Ka: 10 of 100 offsets (10 %), ")
    assert terminal.getvalue().endswith("\r\x1b[2K") and "\n" not in terminal.getvalue()
    assert open_board(lines.append, io.StringIO()).terminal is None
    assert not lines


def test_a_long_reading_tells_its_rate_at_the_end() -> None:
    lines: list[str] = []
    times_s = iter([0.0, 60.0])
    course = Course("a", 3000)
    with ProgressBoard(lines.append, interval_s=TIMEOUT_S, clock_s=lambda: next(times_s)).watch(course):
        course.add_done(3000)
    assert lines == ["a: 3,000 offsets read in 1 min 0 s, 50/s"]


def test_a_night_without_a_board_is_silent() -> None:
    with ProgressBoard().watch(Course("a", 1)):
        assert "progress" not in {each.name for each in threading.enumerate()}
