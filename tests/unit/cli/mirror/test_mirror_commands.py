"""The directory of a mirror, and the commands that only read it."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkalite.cli.main import main
from kafkalite.cli.mirror import command
from kafkalite.cli.mirror.back import returning
from kafkalite.cli.mirror.files import MirrorDirectory, MirrorFileError, MirrorState
from kafkalite.cli.mirror.plan import KnownTopic

STATE = MirrorState("a", "b", 900, "00" * 16, {"t": KnownTopic("s", "d")}, 12)


def mirror(*words: str) -> Result:
    return CliRunner().invoke(main, ["mirror", *words])


def write_status(directory: Path, **changes: Any) -> MirrorDirectory:
    row = {"topic": "t", "partition": 0, "source_end": 9, "copied_to": 4, "lag": 5, "brokers": [1], "problem": ""}
    status = {
        "time_ms": int(time.time() * 1000),
        "phase": "mirroring",
        "is_fenced": False,
        "topics": 1,
        "groups": 2,
        "problems": [],
        "notes": [],
        "obstacles": [],
        "partitions": [row],
    }
    files = MirrorDirectory(directory)
    files.write_status(status | changes)
    return files


def test_a_request_to_switch_ends_with_the_command_that_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that is killed withdraws nothing."""
    files = write_status(tmp_path)
    files.request_switch()
    file = tmp_path / "switch"
    assert files.switch_wanted
    os.utime(file, (0, time.time() - 11))
    assert not files.switch_wanted, "nobody waits any more"
    seen: list[bool] = []

    def let_it_age(_: float) -> None:
        seen.append(files.switch_wanted)
        os.utime(file, (0, 0))
        if len(seen) == 2:
            write_status(tmp_path, phase="switched")

    monkeypatch.setattr(command.time, "sleep", let_it_age)
    assert mirror("switch", str(tmp_path), "--yes").exit_code == 0
    assert seen == [True, True], "a command that waits renews it"
    files.withdraw_switch()
    files.renew_switch()
    assert not file.exists(), "and nothing that was withdrawn"


def test_state_outlives_the_process_and_a_foreign_file_is_refused(tmp_path: Path) -> None:
    files = MirrorDirectory(tmp_path)
    assert files.read_state() is None
    files.write_state(STATE)
    assert MirrorDirectory(tmp_path).read_state() == STATE
    (tmp_path / "mirror.json").write_text("[]")
    with pytest.raises(MirrorFileError, match="no state of a mirror"):
        files.read_state()


def test_one_mirror_at_a_time_has_a_directory(tmp_path: Path) -> None:
    files = MirrorDirectory(tmp_path)
    assert not files.is_running()
    with files.lock():
        assert files.is_running()
        with pytest.raises(
            MirrorFileError, match="another `kafkalite mirror run` or `kafkalite mirror back` is at work"
        ):
            MirrorDirectory(tmp_path).lock()
    assert not files.is_running()


def test_status_shows_the_lag_and_exits_with_7_at_a_problem(tmp_path: Path) -> None:
    assert mirror("status", str(tmp_path)).exit_code == 3
    write_status(tmp_path, obstacles=["t-0: behind"])
    found = mirror("status", str(tmp_path))
    assert found.exit_code == 0 and "t              0           9          4    5" in found.stdout
    assert "mirroring: 1 topic, 2 groups, lag 5" in found.stderr and "Before a switch: t-0: behind" in found.stderr
    write_status(tmp_path, problems=["topic x is there"])
    assert mirror("status", str(tmp_path)).exit_code == 7
    write_status(tmp_path, time_ms=0)
    assert mirror("status", str(tmp_path)).exit_code == 5, "nobody is at work"
    write_status(tmp_path, phase="switched", time_ms=0)
    assert mirror("status", str(tmp_path)).exit_code == 0


def test_partitions_that_are_handed_over_before_the_others_are_named(tmp_path: Path) -> None:
    write_status(tmp_path, handed_over=2, obstacles=["t-0: behind"])
    for words in (("status",), ("switch", "--dry-run"), ("switch", "--yes", "--wait", "0")):
        found = mirror(*words, str(tmp_path))
        assert found.exit_code == 7 and "2 partitions handed over: keep the producers and consumers" in found.stderr


def test_a_switch_that_was_killed_at_its_end_is_finished_by_another(tmp_path: Path) -> None:
    """The status says so before the state, as the mirror writes them."""
    files = write_status(tmp_path, phase="switched", time_ms=0)
    files.write_state(STATE)
    again = "call `kafkalite mirror run` and `kafkalite mirror switch` again"
    found = mirror("switch", str(tmp_path), "--yes")
    assert found.exit_code == 7 and again in found.stderr
    with pytest.raises(MirrorFileError, match=again):
        returning.load_switched_state(files, "a", "b")
    files.write_state(replace(STATE, is_switched=True))
    assert mirror("switch", str(tmp_path), "--yes").exit_code == 0
    assert returning.load_switched_state(files, "a", "b").is_switched


def test_a_switch_needs_consent_and_a_mirror_and_is_withdrawn_when_it_does_not_happen(tmp_path: Path) -> None:
    files = write_status(tmp_path, obstacles=["t-0: behind"])
    assert mirror("switch", str(tmp_path)).exit_code == 2
    dry = mirror("switch", str(tmp_path), "--dry-run")
    assert dry.exit_code == 7 and "t-0: behind" in dry.stderr and not files.switch_wanted
    found = mirror("switch", str(tmp_path), "--yes", "--wait", "0.1")
    assert found.exit_code == 7 and "t-0: behind" in found.stderr and not files.switch_wanted
    write_status(tmp_path, phase="switching")
    begun = mirror("switch", str(tmp_path), "--yes", "--wait", "0.1")
    assert begun.exit_code == 5 and "has begun, and may still happen" in begun.stderr
    write_status(tmp_path)
    assert mirror("switch", str(tmp_path), "--dry-run").exit_code == 0
    write_status(tmp_path, time_ms=0)
    assert mirror("switch", str(tmp_path), "--yes").exit_code == 5
    write_status(tmp_path, phase="switched")
    assert mirror("switch", str(tmp_path), "--yes").exit_code == 0
