"""Archives that were made at different times, by different users, are the same once they are settled."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from kafkalite import build_archives
from kafkalite.build_archives import EARLIEST_S, EPOCH, moment_s, settle_source_archive, settle_wheel

FILES = {"p/__init__.py": b"", "p/run": b"#!/bin/sh\n", "p-1.dist-info/RECORD": b"p/run,,\n", "z.py": b"z = 1\n"}


def source_archive(path: Path, names: Sequence[str], mtime: int, owner: str, file_mode: int) -> bytes:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.uname, entry.uid = len(FILES[name]), mtime, owner, mtime % 7
            entry.mode = file_mode | (0o111 if name == "p/run" else 0)
            archive.addfile(entry, io.BytesIO(FILES[name]))
    settle_source_archive(path, 10**9)
    return path.read_bytes()


def wheel(path: Path, names: Sequence[str], year: int, file_mode: int) -> bytes:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            entry = zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | file_mode | (0o111 if name == "p/run" else 0)) << 16
            archive.writestr(entry, FILES[name])
    settle_wheel(path, 10**9)
    return path.read_bytes()


def test_source_archives_differ_in_nothing_but_their_files(tmp_path: Path) -> None:
    one = source_archive(tmp_path / "one.tar.gz", [*FILES], 1_600_000_000, "alice", 0o644)
    other = source_archive(tmp_path / "other.tar.gz", [*reversed(FILES)], 1_700_000_000, "bob", 0o664)
    assert one == other
    with tarfile.open(tmp_path / "other.tar.gz") as archive:
        found = {entry.name: entry for entry in archive}
        assert {name: archive.extractfile(name).read() for name in found} == FILES  # type: ignore[union-attr]
    assert found["p/run"].mode == 0o755 and found["z.py"].mode == 0o644 and found["z.py"].mtime == 10**9


def test_wheels_differ_in_nothing_but_their_files(tmp_path: Path) -> None:
    one = wheel(tmp_path / "one.whl", [*FILES], 2001, 0o644)
    assert one == wheel(tmp_path / "other.whl", [*reversed(FILES)], 2022, 0o664)
    with zipfile.ZipFile(tmp_path / "one.whl") as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == FILES
        assert archive.namelist()[-1] == "p-1.dist-info/RECORD"
        assert archive.getinfo("p/run").external_attr >> 16 == 0o100755


def test_the_time_of_entries_is_that_of_the_variable() -> None:
    assert moment_s({EPOCH: "1700000000"}) == 1_700_000_000
    assert moment_s({}) == moment_s({EPOCH: ""}) == moment_s({EPOCH: "0"}) == EARLIEST_S
    assert build_archives.EARLIEST_S % 86_400 == 0
