"""Servers are told of the archive of their classes when there is one, and what the user says wins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import class_data
from tests.class_data import use_archive
from zk.servers.class_data import FLAGS, ClassData


def test_only_an_archive_that_is_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "zookeeper.jsa"
    monkeypatch.setattr(class_data, "archive_path", lambda: path)
    monkeypatch.setenv(FLAGS, "-Xmx1g")
    del os.environ[FLAGS]
    use_archive()
    assert FLAGS not in os.environ
    path.touch()
    use_archive()
    assert os.environ[FLAGS] == f"-XX:SharedArchiveFile={path}"
    os.environ[FLAGS] = "-Xmx1g"
    use_archive()
    assert os.environ[FLAGS] == "-Xmx1g"


def test_the_first_server_writes_it_and_the_next_ones_read_it(tmp_path: Path) -> None:
    jar = tmp_path / "lib"
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch()
    environment = {"JAVA_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "ZOOKEEPER_HOME": str(jar)}
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr("zk.servers.class_data.find_server_classes", lambda environment: [java])
        first, beside = ClassData(environment), ClassData(environment)
        assert beside.jvm_options(writes=False) == []
        _, option = first.jvm_options(writes=True)
        draft = Path(option.removeprefix("-XX:ArchiveClassesAtExit="))
        draft.write_text("classes")
        first.keep_archive(cleanly=True)
        (option,) = beside.jvm_options(writes=True)
        archive = Path(option.removeprefix("-XX:SharedArchiveFile="))
        assert archive.read_text() == "classes" and not draft.exists()
        assert ClassData(environment | {FLAGS: "-Xshare:off"}).jvm_options(writes=True) == []
        archive.unlink()  # and as if the first had been killed at its end: nobody tries again
        assert beside.jvm_options(writes=True) == []
