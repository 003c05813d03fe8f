"""What all unit tests share: files of logs that a test left open are closed at its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkalite.storage.disk import Disk
from kafkalite.storage.open_files import OpenFiles


@pytest.fixture(autouse=True)
def close_open_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Most tests leave their logs as a killed broker does; thousands of them in one process would run out of descriptors."""
    made: list[OpenFiles] = []
    real_init = OpenFiles.__init__

    def init(self: OpenFiles, disk: Disk, limit: int) -> None:
        real_init(self, disk, limit)
        made.append(self)

    monkeypatch.setattr(OpenFiles, "__init__", init)
    yield
    for files in made:
        files.close()
