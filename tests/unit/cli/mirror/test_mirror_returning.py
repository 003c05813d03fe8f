"""What `kafkalite mirror back` shows, refuses and asks, with both clusters in memory."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from kafkalite.cli.main import main
from kafkalite.cli.mirror.back.changes import WantedBack
from kafkalite.cli.mirror.back.deleted_records import Starts, describe, tell_kept
from kafkalite.cli.mirror.back.returning import _Way
from kafkalite.types import TopicPartition
from tests.unit.cli.mirror.test_mirror_bringing_back import Room

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def way_of(room: Room, *left: str, **changes: Any) -> _Way:
    given = {"wait_s": 0.0, "deletes_topics": False, "deletes_records": False, "is_dry": True, "yes": False}
    return _Way(room.files, WantedBack(left), output="json", **(given | changes))


def show(room: Room, starts: Starts, **changes: Any) -> list[str]:
    bringing = room.start()

    async def play() -> list[str]:
        return await way_of(room, **changes)._show(bringing, await bringing.plan(), starts)

    return asyncio.run(play())


def test_a_plan_names_topics_that_were_deleted_or_made_again(room: Room) -> None:
    assert show(room, {}) == []
    room.target.calls.append("t")  # one more call, one more id
    room.target.make_topic("t", 2)
    assert "topic t was deleted in the target and made again" in show(room, {})[0]
    del room.target.topics["t"]
    assert "topic t is not in the target any more" in show(room, {})[0]


def test_a_plan_shows_records_that_were_deleted_in_the_target(room: Room, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(room, {T0: (0, 7)}) == []
    shown = capsys.readouterr()
    assert json.loads(shown.out) == [] and "Note: records of t-0 before 7 are deleted in the target" in shown.err
    assert show(room, {T0: (0, 7)}, deletes_records=True) == []
    shown = capsys.readouterr()
    row = {"kind": "records", "name": "t", "key": "0", "in_source": "from 0", "becomes": "from 7"}
    assert json.loads(shown.out) == [row] and "--delete-records" not in shown.err


def test_the_end_says_what_was_deleted_and_what_is_kept(room: Room, capsys: pytest.CaptureFixture[str]) -> None:
    def sum_up(deletes: Starts, found: Starts | Exception) -> tuple[list[str], str]:
        async def find() -> Starts:
            if isinstance(found, Exception):
                raise found
            return found

        way: Any = SimpleNamespace(deletes=deletes, groups=0, offsets=0, find_moved_starts=find)
        problems = asyncio.run(way_of(room)._sum_up(way, room.start()))
        return problems, capsys.readouterr().err

    problems, told = sum_up({T0: (0, 7)}, {T1: (0, 5)})
    assert problems == [] and "1 of 1 planned change" in told and "records of t-1 before 5 are deleted" in told
    assert sum_up({T0: (0, 7)}, {T0: (7, 9)})[0] == [], "retention went on in the target"
    problems, told = sum_up({T0: (0, 7)}, {T0: (0, 7)})
    assert problems == ["t-0: records are not deleted in the source yet"] and "0 of 1 planned change" in told
    assert sum_up({}, ConnectionError("lost"))[0] == ["where partitions begin is not known: lost"]


def test_records_are_deleted_with_consent(room: Room) -> None:
    assert way_of(room, yes=True)._ask_records({T0: (0, 7)}) == {T0: (0, 7)}
    assert way_of(room)._ask_records({}) == {}, "nothing is asked"
    with pytest.raises(SystemExit):
        way_of(room)._ask_records({T0: (0, 7)})


def test_many_partitions_are_counted() -> None:
    starts = {TopicPartition("t", each): (0, 5) for each in range(22)}
    assert describe(starts).startswith("t-0 before 5, t-1 before 5, ") and describe(starts).endswith(" and 2 others")
    assert tell_kept({}) == []


def test_leave_takes_topics_that_were_made_in_the_target_alone(room: Room, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*left: str) -> str:
        with pytest.raises(SystemExit) as ended:
            asyncio.run(way_of(room, *left)._require_leavable(room.start()))
        assert ended.value.code == 2
        return capsys.readouterr().err

    assert "--leave t: no topic of that name was made in the target since the switch; none was" in refuse("t")
    room.target.make_topic("payments")
    told = refuse("payment", "t", "payments")
    assert "--leave payment: " in told and "those that were: payments; did you mean payments?" in told
    assert "--leave t: " in told and "--leave payments: " not in told
    asyncio.run(way_of(room, "payments")._require_leavable(room.start()))
    asyncio.run(way_of(room)._require_leavable(room.start()))
    (room.files.path / "at-switch.json").unlink()
    assert "the directory does not tell which topics were made" in refuse("payments"), "that none was is not known"


@pytest.mark.parametrize("option", ["--delete-topics", "--delete-records", "--dry-run"])
def test_what_is_for_one_comparison_does_not_go_with_follow(tmp_path: Path, option: str) -> None:
    done = CliRunner().invoke(main, ["mirror", "back", str(tmp_path), "--to", "h:1", "-b", "h:2", "--follow", option])
    assert done.exit_code == 2 and "--follow goes with none of" in done.output
