"""Waiting shows how far it is, and ends with what is left when the time is up."""

from __future__ import annotations

import asyncio
import json
import sys
import threading

import click
import pytest

from kafkalite.cli import progress
from kafkalite.cli.output import Exit
from kafkalite.cli.progress import wait_until_done


def events(text: str) -> list[tuple[int, int]]:
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert all(each["event"] == "progress" and each["what"] == "moving" for each in found)
    return [(each["done"], each["total"]) for each in found]


def move(output: str | None) -> None:
    """A wait of four steps, in a command that was asked for its results in a shape; None for a command without shapes."""
    answers = [["a", "b"], ["a", "b"], ["b"], []]

    async def left() -> list[str]:
        return answers.pop(0)

    with click.Context(click.Command("move"), info_name="move") as context:
        context.params = {} if output is None else {"output": output}
        asyncio.run(wait_until_done("moving", ["a", "b", "c"], left, 30))


@pytest.mark.parametrize("output", ["json", "jsonl"])
def test_each_step_is_a_line_of_json_when_json_was_asked_for(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    move(output)
    captured = capsys.readouterr()
    assert events(captured.err) == [(1, 3), (2, 3), (3, 3)] and captured.out == ""


@pytest.mark.parametrize("output", [None, "table", "csv"])
def test_each_step_is_a_line_for_people_by_default(
    output: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_PATIENCE_S", 0.0)
    move(output)
    captured = capsys.readouterr()
    assert captured.err.splitlines() == ["moving: 1 of 3", "moving: 2 of 3", "moving: 3 of 3"] and captured.out == ""
    monkeypatch.setattr(progress, "_PATIENCE_S", 3600.0)
    move(output)
    assert capsys.readouterr().err == "", "what is quick needs no progress"


def test_what_is_left_is_named_when_the_time_is_up(capsys: pytest.CaptureFixture[str]) -> None:
    async def left() -> list[str]:
        return ["b"]

    with pytest.raises(SystemExit) as ended:
        asyncio.run(wait_until_done("moving", ["a", "b"], left, 0.01))
    assert ended.value.code == Exit.UNREACHABLE
    assert "Error: moving: 1 of 2 left after 0.01 s: b" in capsys.readouterr().err


def test_a_cluster_that_does_not_answer_leaves_all(capsys: pytest.CaptureFixture[str]) -> None:
    async def left() -> list[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(SystemExit):
        asyncio.run(wait_until_done("moving", ["a", "b"], left, 0.01, Exit.CHECK_FAILED))
    assert "2 of 2 left after 0.01 s: a, b" in capsys.readouterr().err


@pytest.mark.parametrize("is_terminal", [True, False])
def test_who_waits_at_a_terminal_hears_for_what(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = threading.Event()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setattr(progress, "note", lambda text: (print(text), said.set()))
    monkeypatch.setattr(progress, "_PATIENCE_S", 0.0)
    with progress.patience("looking at zookeeper"):
        assert not is_terminal or said.wait(30)
    assert capsys.readouterr().out == ("looking at zookeeper ...\n" if is_terminal else "")
    monkeypatch.setattr(progress, "_PATIENCE_S", 3600.0)
    with progress.patience("a call that is quick"):
        pass
    timers = [each for each in threading.enumerate() if isinstance(each, threading.Timer)]
    assert all(each.finished.is_set() for each in timers)
