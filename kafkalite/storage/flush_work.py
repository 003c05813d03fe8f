"""What must be brought to the medium so that a log is safe up to an offset: plain data, so that any thread may do it."""

from __future__ import annotations

from typing import NamedTuple

from kafkalite.storage.disk import Disk


class FlushWork(NamedTuple):
    """Files to bring to the medium so that all below `up_to` is safe; `run` may be called on any thread."""

    disk: Disk
    paths: tuple[str, ...]
    up_to: int

    def run(self) -> None:
        for path in self.paths:
            try:
                self.disk.sync(path)
            except FileNotFoundError:  # removed meanwhile, by retention or with its topic
                pass
