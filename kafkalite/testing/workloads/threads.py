"""The thread that a writer, a reader or an observer works in."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from kafkalite.testing.history.recorder import Recorder


class WorkloadThread(ABC):
    """A client at work from `start` to `finish`. `problems` are what it should not have met; subclasses record what it does."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        self.name = name
        self.problems: list[str] = []
        self._recorder = recorder
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run_guarded, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self, timeout_s: float = 30) -> None:
        """Stop the client and wait for its end; one that does not end in time is a problem."""
        self._stopping.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self.problems.append(f"{self.name} did not end")

    def _run_guarded(self) -> None:
        try:
            self._run()
        except Exception as problem:
            self.problems.append(f"{self.name} ended: {problem!r}")

    @abstractmethod
    def _run(self) -> None:
        """Work until `_stopping` is set, then end what is under way."""
