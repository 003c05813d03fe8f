"""Recordings of a terminal become lines, and lines a picture that moves."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from deploy.docs.drawings.recording import ROWS, draw_recording
from deploy.docs.drawings.terminal import TYPED_S, NotARecording, Span, Style, read


def cast(*events: tuple[float, str, str], width: int = 20) -> str:
    header = {"version": 2, "width": width, "height": 5, "title": "a title"}
    return "\n".join(json.dumps(each) for each in (header, *events))


def test_commands_are_typed_and_output_appears_when_it_came() -> None:
    shown = read(cast((1.0, "i", "ls"), (2.0, "o", "a\r\n"), (3.0, "o", "b"), (3.5, "o", "c\r\n")))
    assert [(line.text, line.at_s, line.typed) for line in shown.lines] == [
        ("$ ls", 1.0, 2),
        ("a", 2.0, 0),
        ("bc", 3.0, 0),
    ]
    assert shown.length_s == 3.5


def test_styles_last_until_they_change_and_other_sequences_are_not_shown() -> None:
    shown = read(cast((0, "o", "\x1b[1;31mno\x1b[?25l"), (1, "o", "pe\x1b[0m ok\x1b]0;title\x07\r\n")))
    assert shown.lines[0].spans == [
        Span("no", Style("bad", True)),
        Span("pe", Style("bad", True)),
        Span(" ok", Style()),
    ]


def test_long_lines_are_wrapped_and_overwritten_ones_are_not_kept() -> None:
    shown = read(cast((0, "o", "abcdefgh\r\n50 %\r100 %\r\n"), width=5))
    assert [line.text for line in shown.lines] == ["abcde", "fgh", "100 %"]


def test_a_picture_moves_once_through_all_lines() -> None:
    events = [(0.0, "i", "seq 40"), *((1.0 + number / 10, "o", f"{number} <&>\r\n") for number in range(40))]
    text = draw_recording(read(cast(*events)))
    root = ElementTree.fromstring(text)
    assert root.findtext("{http://www.w3.org/2000/svg}desc") == "$ seq 40"
    names = re.findall(r"@keyframes ([\w-]+)\{", text)
    assert len(names) == len(set(names)) == 40 + 3, "each line, the typing, and the scrolling"
    assert set(re.findall(r"animation-name:([\w-]+)", text)) == set(names)
    scroll = re.search(r"@keyframes rec-scroll\{(.*?\})\}", text)
    assert scroll is not None and scroll[1].count("translateY") == 41 - ROWS + 2
    assert "prefers-reduced-motion" in text


def test_typing_takes_its_time() -> None:
    shown = read(cast((0.0, "i", "abcd"), (10 * TYPED_S, "o", "x\r\n")))
    assert shown.lines[1].at_s == 10 * TYPED_S > 4 * TYPED_S


def test_a_progress_bar_that_erases_itself_is_not_kept() -> None:
    bar = "\x1b[?25lall \x1b[38;5;70m━━\x1b[0m 0%\r\x1b[2Kall ━━ 100%\r\n\x1b[?25h\r\x1b[1A\x1b[2Kdone\r\n"
    assert [line.text for line in read(cast((0, "o", bar))).lines] == ["done"]
    with pytest.raises(NotARecording, match="goes up from 'b'"):
        read(cast((0, "o", "a\r\nb\x1b[A")))


def test_pauses_are_shortened_but_not_the_typing_before_them() -> None:
    events = [(2.0, "i", "x" * 100), (50.0, "o", "a\r\n"), (50.5, "o", "b\r\n")]
    header, *rest = cast(*events).splitlines()
    shown = read("\n".join([json.dumps(json.loads(header) | {"idle_time_limit": 1}), *rest]))
    assert [round(line.at_s, 3) for line in shown.lines if not line.typed] == [round(2 + 100 * TYPED_S, 3), 6.0]
    assert [line.text for line in shown.lines] == ["$ " + "x" * 100, "a", "b"]


@pytest.mark.parametrize("text", ["", "{}", "[1]\n", '{"width": 3, "title": "x"}\n[1, "o"]', "no json"])
def test_what_is_no_recording_is_refused(text: str) -> None:
    with pytest.raises(NotARecording, match="no asciicast"):
        read(text)
