"""What all unit tests share: open files of logs are closed at a test's end; an error on a loop that nobody expected fails the test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kafkalite.storage.disk import Disk
from kafkalite.storage.open_files import OpenFiles
from kafkalite.testing.simulation.virtual_time import SeenErrors


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


@pytest.fixture(autouse=True)
def handle_unexpected_errors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every loop without a handler of its own has production's."""
    seen = SeenErrors()
    monkeypatch.setattr(
        asyncio.BaseEventLoop, "default_exception_handler", lambda loop, context: seen.handle(loop, context)
    )
    yield
    for context in seen.contexts:
        raise AssertionError(context["message"]) from context.get("exception")
