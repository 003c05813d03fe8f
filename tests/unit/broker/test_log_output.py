"""What strangers can write into a broker's log: how many lines, and what stands in them."""

from __future__ import annotations

import io
import logging
import sys

import pytest

from kafkalite.broker.log_output import (
    CHARACTERS_MAX,
    LINES_OF_KIND,
    LINES_OF_SUBJECT,
    TRACEBACK_LINES,
    WINDOW_S,
    BrokerLog,
    one_line,
)

REFUSED = "closing the connection from %s on %s: %s"


class Log:
    """A log whose lines come at the times that a test names."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.handler = BrokerLog(self.stream)

    def line(
        self,
        now_s: float,
        message: str,
        *arguments: object,
        level: int = logging.WARNING,
        name: str = "x",
        failed: bool = False,
    ) -> None:
        trace = sys.exc_info() if failed else None
        record = logging.LogRecord(name, level, __file__, 1, message, arguments, trace)
        record.created = now_s
        self.handler.handle(record)

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


def test_a_client_that_was_refused_again_and_again_wrote_a_line_each_time() -> None:
    log = Log()
    for count in range(4_337):
        log.line(1000 + count / 100, REFUSED, "10.0.0.7", "PLAINTEXT", "ApiVersions version 99")
    log.line(1050, REFUSED, "10.0.0.8", "PLAINTEXT", "unknown api key 77")
    assert len(log.lines) == LINES_OF_SUBJECT + 1, "another peer has lines of its own"
    log.handler.write_left_out(1000 + WINDOW_S - 1)
    assert len(log.lines) == LINES_OF_SUBJECT + 1
    log.handler.write_left_out(1000 + WINDOW_S)
    told = log.lines[-1]
    assert f"{4_337 - LINES_OF_SUBJECT} more lines like this one within 60 s were left out" in told
    assert "closing the connection from 10.0.0.7 on PLAINTEXT: ApiVersions version 99" in told
    log.handler.write_left_out(1000 + 3 * WINDOW_S)
    assert log.lines[-1] == told, "a quiet window has nothing to tell"
    log.line(1000 + 3 * WINDOW_S, REFUSED, "10.0.0.7", "PLAINTEXT", "again")
    assert "again" in log.lines[-1], "a new window has room again"


def test_many_subjects_and_many_kinds_are_bounded_too() -> None:
    log = Log()
    for count in range(5_000):
        log.line(1000, REFUSED, f"2001:db8::{count:x}", "PLAINTEXT", "a negative size")
    assert len(log.lines) == LINES_OF_KIND
    for count in range(5_000):
        log.line(1000, f"a text without arguments {count}")
    assert len(log.lines) < LINES_OF_KIND + 1_500
    assert len(log.handler._limit._kinds) < 1_100
    assert len(log.handler._limit._subjects) < 1_600
    log.line(1000 + WINDOW_S, "the next")
    assert any("4500 more lines like this one" in line for line in log.lines), "told by the next line as well"


def test_a_traceback_counts_for_the_lines_that_it_has() -> None:
    log = Log()
    for _ in range(100):
        try:
            raise ValueError("a bug")
        except ValueError:
            log.line(1000, "%s", "Fetch version 4 failed", failed=True)
    assert log.stream.getvalue().count("Traceback") == LINES_OF_SUBJECT // TRACEBACK_LINES


def test_state_changes_and_debugging_are_not_limited() -> None:
    log = Log()
    for count in range(1_000):
        log.line(1000, "partition %s is led by %d", "a-0", count, name="kafkalite.state_change")
        log.line(1000, "frame %s", "x", level=logging.DEBUG)
    assert len(log.lines) == 2_000


@pytest.mark.parametrize("text", ["a\n[2026-11-22] INFO all is well", "\x1b[2J", "a\u2028b", "\ud800", "a\u202eb\x00"])
def test_a_group_id_wrote_lines_in_our_name(text: str) -> None:
    log = Log()
    log.line(1000, "group %s: its record cannot be read", text)
    try:
        raise ValueError(text)
    except ValueError:
        log.line(1000, "%s", text, failed=True)
    first, second, *trace = log.lines
    assert first.isprintable()
    assert second.isprintable()
    assert all(line.startswith("  ") and line.isprintable() for line in trace)
    log.stream.getvalue().encode()


def test_a_name_of_a_megabyte_was_written_out() -> None:
    log = Log()
    log.line(1000, "group %s: rebalance", "g" * 1_000_000)
    assert len(log.stream.getvalue()) < CHARACTERS_MAX + 200
    assert one_line("ä ö") == "ä ö"
