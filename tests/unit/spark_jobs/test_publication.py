"""Publication: whatever is interrupted wherever, readers see the old day or the new one, and the next run makes it good."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from spark_jobs.batch import layout, storage
from spark_jobs.batch.failures import LockLostError, OutputError
from spark_jobs.batch.ledger import PUBLISHING, Entry, Ledger, Unit
from spark_jobs.batch.plan import RunPlan
from spark_jobs.batch.publication import clear_staging, gather, publish
from spark_jobs.batch.storage import LocalStorage

DAY, LATE_DAY = date(2013, 6, 15), date(2013, 6, 12)
PLAN = RunPlan("flights", "id", DAY, {0: (0, 10)}, {0: 10})
OWN = layout.run_unit(layout.ARCHIVE, "flights", DAY, DAY)
LATE = layout.run_unit(layout.ARCHIVE, "flights", LATE_DAY, DAY)


class Crash(BaseException):
    """The process is gone."""


class CrashingStorage(LocalStorage):
    """Does `steps` changes, and dies before the next."""

    def __init__(self, root: Path, steps: int) -> None:
        super().__init__(root)
        self.steps = steps

    def _step(self) -> None:
        if self.steps == 0:
            raise Crash
        self.steps -= 1

    def write(self, path: str, data: bytes) -> None:
        self._step()
        super().write(path, data)

    def remove(self, path: str) -> None:
        self._step()
        super().remove(path)

    def move(self, path: str, target: str) -> None:
        self._step()
        super().move(path, target)

    def replace(self, path: str, target: str) -> None:
        self._step()
        super().replace(path, target)


class ObjectStore(CrashingStorage):
    """Has no step for folders. A move is two steps: the copy, and the end of what was copied."""

    renames_folders = False

    def move(self, path: str, target: str) -> None:
        self._step()
        assert not (self._root / target).exists()
        data = (self._root / path).read_bytes()
        LocalStorage.write(self, target, data)
        self._step()
        LocalStorage.remove(self, path)

    def replace(self, path: str, target: str) -> None:
        raise AssertionError("an object store cannot do that")


def write_like_spark(root: Path, written: str, folder: str, names: dict[str, int]) -> None:
    """Parquet files with the numbers of rows given, and what else Spark leaves."""
    place = root / written / folder
    place.mkdir(parents=True, exist_ok=True)
    for name, rows in names.items():
        parquet.write_table(pa.table({"offset": list(range(rows))}), place / name)
        (place / f".{name}.crc").write_bytes(b"crc")
    (root / written / "_SUCCESS").touch()


def part(task: int, file: int = 0) -> str:
    return f"part-{task:05d}-65c49d4a-b26d-40f0-b878-be9d0d1176d9.c{file:03d}.zstd.parquet"


def staged_units(at: LocalStorage, root: Path, attempt: str, rows: dict[str, int]) -> list[Unit]:
    """A unit with one file of so many rows for each path."""
    units = []
    for number, (path, count) in enumerate(rows.items()):
        written = f"{layout.attempt_folder(attempt)}/{number}"
        write_like_spark(root, written, "", {part(0): count})
        units.append(gather(at, attempt, written, path, DAY, [(0, "")]))
    return units


def visible(root: Path) -> dict[str, list[int]]:
    """What somebody sees who reads the folders: rows of the files of each unit."""
    found: dict[str, list[int]] = {}
    for file in sorted((root / layout.ARCHIVE).rglob("*.parquet")):
        found.setdefault(str(file.parent.relative_to(root)), []).append(parquet.read_metadata(file).num_rows)
    return found


def counted(root: Path) -> dict[str, list[int]]:
    """What somebody sees who goes by the manifests: rows of the files that they list, all of which are there."""
    found: dict[str, list[int]] = {}
    for manifest in sorted((root / layout.ARCHIVE).rglob(layout.MANIFEST)):
        for file in json.loads(manifest.read_bytes())["files"]:
            rows = parquet.read_metadata(manifest.parent / file["name"]).num_rows
            found.setdefault(str(manifest.parent.relative_to(root)), []).append(rows)
    return found


def run(at: LocalStorage, root: Path, attempt: str, rows: dict[str, int]) -> None:
    """A run from its plan to its end."""
    ledger = Ledger(at, "archive")
    entry = Entry("archive", PLAN, "planned", attempt)
    ledger.put_pending(entry)
    units = staged_units(at, root, attempt, rows)
    ready = Entry("archive", PLAN, PUBLISHING, attempt, tuple(units))
    ledger.put_pending(ready)
    finish(at, ledger, ready)


def finish(at: LocalStorage, ledger: Ledger, entry: Entry) -> None:
    publish(at, entry, ledger.read_done(PLAN.topic, PLAN.date), lambda: None)
    ledger.finish(entry, 1)


def recover(at: LocalStorage) -> str:
    """What the next run does first; the state in which it finds the ledger."""
    ledger = Ledger(at, "archive")
    pending = ledger.all_pending("flights")
    for entry in pending:
        if entry.state == PUBLISHING:
            finish(at, ledger, entry)
    clear_staging(at)
    return pending[0].state if pending else "none"


@pytest.fixture(params=["exchange", "two renames"])
def exchanging(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """With the kernel's exchange of two names, and where there is none."""
    if request.param == "two renames":
        monkeypatch.setattr(storage, "_exchange", lambda *_: False)
    return request.param == "exchange"


OLD = {OWN: [3], LATE: [1]}
NEW = {OWN: [4]}


def test_crash_at_every_step_leaves_the_old_or_the_new(tmp_path: Path, exchanging: bool) -> None:
    states = []
    for steps in range(100):
        root = tmp_path / str(steps)
        run(LocalStorage(root), root, "first", {OWN: 3, LATE: 1})
        assert visible(root) == OLD
        at = CrashingStorage(root, steps)
        try:
            run(at, root, "second", {OWN: 4})
            crashed = False
        except Crash:
            crashed = True
        seen = visible(root)
        assert seen in (OLD, NEW, {OWN: [4], LATE: [1]}), f"half a day after {steps} steps"
        states.append(recover(LocalStorage(root)))
        run(LocalStorage(root), root, "third", {OWN: 4})
        assert visible(root) == NEW
        assert not (root / layout.STAGING / "second").exists()
        if not crashed:
            break
    assert set(states) == {"none", "planned", "publishing"}


def test_crash_at_every_step_on_an_object_store(tmp_path: Path) -> None:
    states = []
    for steps in range(100):
        root = tmp_path / str(steps)
        run(ObjectStore(root, -1), root, "first", {OWN: 3, LATE: 1})
        assert visible(root) == counted(root) == OLD
        try:
            run(ObjectStore(root, steps), root, "second", {OWN: 4})
            crashed = False
        except Crash:
            crashed = True
        assert counted(root) in (OLD, NEW, {OWN: [4], LATE: [1]}, {OWN: [4]}), f"half a day after {steps} steps"
        states.append(recover(ObjectStore(root, -1)))
        assert visible(root) == counted(root) == (NEW if states[-1] == "publishing" or not crashed else OLD)
        run(ObjectStore(root, -1), root, "third", {OWN: 4})
        assert visible(root) == counted(root) == NEW
        assert not (root / layout.STAGING / "second").exists()
        if not crashed:
            break
    assert set(states) == {"none", "planned", "publishing"}


def test_same_contents_are_left_alone_on_an_object_store(tmp_path: Path) -> None:
    """So are those files of a unit that are the same, and nothing that somebody has put beside them stays."""
    at = ObjectStore(tmp_path, -1)
    run(at, tmp_path, "first", {OWN: 3})
    (kept,) = (each.name for each in at.entries(OWN) if each.name.startswith("part-"))
    assert re.fullmatch(r"part-00000-000-[0-9a-f]{12}\.parquet", kept)
    before = (tmp_path / OWN / kept).stat().st_ino
    at.write(f"{OWN}/other.parquet", b"")
    written = f"{layout.attempt_folder('second')}/0"
    write_like_spark(tmp_path, written, "", {part(0): 3, part(1): 2})
    unit = gather(at, "second", written, OWN, DAY, [(0, "")])
    publish(at, Entry("archive", PLAN, PUBLISHING, "second", (unit,)), None, lambda: None)
    assert visible(tmp_path) == counted(tmp_path) == {OWN: [3, 2]}
    assert (tmp_path / OWN / kept).stat().st_ino == before


def test_publishing_state_is_carried_on(tmp_path: Path, exchanging: bool) -> None:
    """After a crash while publishing the new day appears by itself, and going on twice changes nothing."""
    run(LocalStorage(tmp_path), tmp_path, "first", {OWN: 3})
    at = LocalStorage(tmp_path)
    units = staged_units(at, tmp_path, "second", {OWN: 4, LATE: 2})
    ledger = Ledger(at, "archive")
    ledger.put_pending(Entry("archive", PLAN, PUBLISHING, "second", tuple(units)))
    publish(at, ledger.all_pending("flights")[0], ledger.read_done("flights", DAY), lambda: None)
    assert recover(at) == "publishing"
    assert recover(at) == "none"
    assert visible(tmp_path) == {OWN: [4], LATE: [2]}
    done = ledger.read_done("flights", DAY)
    assert done is not None and done.state == "done" and [unit.rows for unit in done.units] == [4, 2]


def test_same_contents_are_left_alone(tmp_path: Path) -> None:
    run(LocalStorage(tmp_path), tmp_path, "first", {OWN: 3})
    before = {file: (file.stat().st_ino, file.read_bytes()) for file in (tmp_path / OWN).iterdir()}
    run(LocalStorage(tmp_path), tmp_path, "second", {OWN: 3})
    assert {file: (file.stat().st_ino, file.read_bytes()) for file in (tmp_path / OWN).iterdir()} == before


def test_files_get_names_that_do_not_change(tmp_path: Path) -> None:
    written = f"{layout.attempt_folder('a')}/archive"
    write_like_spark(tmp_path, written, "date=x/run=y/piece=0", {part(0): 2, part(3): 1})
    write_like_spark(tmp_path, written, "date=x/run=y/piece=2", {part(3): 1})
    pieces = [(0, "date=x/run=y/piece=0"), (2, "date=x/run=y/piece=2")]
    unit = gather(LocalStorage(tmp_path), "a", written, OWN, DAY, pieces)
    assert [(file.name, file.rows) for file in unit.files] == [
        ("part-00000-000.parquet", 2),
        ("part-00003-000.parquet", 1),
        ("part-00003-002.parquet", 1),
    ]


def test_several_files_of_a_task_and_empty_ones(tmp_path: Path) -> None:
    written = f"{layout.attempt_folder('a')}/result"
    names = {part(0, 0).replace(".c", "-c"): 2, part(0, 1).replace(".c", "-c"): 1, part(1).replace(".c", "-c"): 0}
    write_like_spark(tmp_path, written, "", names)
    unit = gather(LocalStorage(tmp_path), "a", written, OWN, DAY, [(0, "")])
    assert [(file.name, file.rows) for file in unit.files] == [
        ("part-00000-000.parquet", 2),
        ("part-00000-001.parquet", 1),
    ]


def test_nothing_is_published_without_the_lock(tmp_path: Path) -> None:
    at = LocalStorage(tmp_path)
    units = staged_units(at, tmp_path, "a", {OWN: 1})

    def lost() -> None:
        raise LockLostError("gone")

    with pytest.raises(LockLostError):
        publish(at, Entry("archive", PLAN, PUBLISHING, "a", tuple(units)), None, lost)
    assert visible(tmp_path) == {}


def test_staged_files_that_vanished_are_told(tmp_path: Path) -> None:
    at = LocalStorage(tmp_path)
    units = staged_units(at, tmp_path, "a", {OWN: 1})
    clear_staging(at)
    with pytest.raises(OutputError, match="remove the pending file of 2013-06-15 from the ledger"):
        publish(at, Entry("archive", PLAN, PUBLISHING, "a", tuple(units)), None, lambda: None)
