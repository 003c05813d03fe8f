"""The local output folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.batch import storage
from spark_jobs.batch.failures import OutputError
from spark_jobs.batch.storage import Entry, LocalStorage, local_folder


def test_files_are_replaced_and_leave_nothing_else(tmp_path: Path) -> None:
    at = LocalStorage(tmp_path)
    at.write("a/b/file", b"one")
    at.write("a/b/file", b"two!")
    assert at.read("a/b/file") == b"two!"
    assert at.entries("a/b") == [Entry("file", 4, False)]
    assert at.entries("a") == [Entry("b", 0, True)]


def test_absent_things(tmp_path: Path) -> None:
    at = LocalStorage(tmp_path)
    at.write("file", b"")
    assert (at.read("nothing"), at.read("file/below"), at.entries("nothing")) == (None, None, [])
    at.remove("nothing")


@pytest.mark.parametrize("exchange", [True, False])
def test_replace_leaves_the_old_folder_behind(tmp_path: Path, exchange: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exchange:
        monkeypatch.setattr(storage, "_exchange", lambda *_: False)
    at = LocalStorage(tmp_path)
    at.write("staged/new", b"")
    at.write("visible/old", b"")
    at.replace("staged", "visible")
    assert [entry.name for entry in at.entries("visible")] == ["new"]
    assert [entry.name for entry in at.entries("staged")] == ["old"]
    at.replace("staged", "fresh")
    assert [entry.name for entry in at.entries("")] == ["fresh", "visible"]


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"cannot write .*/file/ledger: .*; the output folder must be writable"):
        LocalStorage(tmp_path / "file").write("ledger", b"")


def test_digest_is_of_the_contents(tmp_path: Path) -> None:
    at = LocalStorage(tmp_path)
    for name, data in {"one": b"x" * 3_000_000, "same": b"x" * 3_000_000, "other": b"x" * 2_999_999 + b"y"}.items():
        at.write(name, data)
    assert at.digest("one") == at.digest("same") != at.digest("other")


@pytest.mark.parametrize(
    ("output", "folder"),
    [
        ("/data/out", Path("/data/out")),
        ("file:///data/out", Path("/data/out")),
        ("hdfs://name/out", None),
        ("s3a://bucket/out", None),
    ],
)
def test_which_outputs_are_local(output: str, folder: Path | None) -> None:
    assert local_folder(output) == folder
