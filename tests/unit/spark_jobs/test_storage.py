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
        ("hdfs:/out", None),
        ("file:/data/out", Path("/data/out")),
        ("file:///data/my%20%C3%A9", Path("/data/my é")),
        ("file:///data/a#b?c", Path("/data/a#b?c")),
        ("/data/a#b?c%20[x", Path("/data/a#b?c%20[x")),
        ("//[x]/out", Path("/[x]/out")),
        ("a:b", Path.cwd() / "a:b"),
    ],
)
def test_which_outputs_are_local(output: str, folder: Path | None) -> None:
    assert local_folder(output) == folder


@pytest.mark.parametrize("name", ["my archive", "a#b", "a?b", "a%20b", "[x]", "{a}", "*", "a\\b", "é日", "a:b", "a\nb"])
def test_spark_gets_the_path_as_it_is(tmp_path: Path, name: str) -> None:
    """Hadoop's Path(String) decodes nothing, so a URI would name another folder."""
    at = LocalStorage(tmp_path / name)
    assert at.spark_path("archive/date=1") == f"file:{tmp_path}/{name}/archive/date=1"
    assert local_folder(at.uri) == tmp_path / name, "URIs are for locks, and say the same"


def test_names_that_spark_cannot_get_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="the name is not UTF-8; give another --output"):
        LocalStorage(tmp_path / "a\udce9").spark_path("")


class Reader:
    """Stands for Spark's; it notes what is read how."""

    def __init__(self) -> None:
        self.read = self
        self.globs: list[str] = []
        self.calls: list[tuple[str, ...]] = []

    def option(self, name: str, value: str) -> Reader:
        self.globs.append(f"{name}={value}")
        return self

    def parquet(self, *paths: str) -> Reader:
        self.calls.append(paths)
        return self

    def withColumns(self, added: object) -> Reader:
        return self

    def unionAll(self, other: Reader) -> Reader:
        return self


def test_paths_that_look_like_patterns_are_read_one_by_one() -> None:
    """Spark reads all of several such paths once for each of them."""
    spark = Reader()
    storage.read_parquet(spark, ["file:/a b/1", "file:/a b/2"])  # type: ignore[arg-type]
    assert (spark.globs, spark.calls) == ([], [("file:/a b/1", "file:/a b/2")])
    spark = Reader()
    storage.read_parquet(spark, ["file:/[x]/1", "file:/[x]/2"])  # type: ignore[arg-type]
    assert spark.calls == [("file:/[x]/1",), ("file:/[x]/2",)]
    assert set(spark.globs) == {"__globPaths__=false"}
