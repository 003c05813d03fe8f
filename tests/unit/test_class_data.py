"""Servers are told of the archive of their classes when there is one, and what the user says wins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import class_data
from tests.class_data import FLAGS, use_archive


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
