"""The directory of a mirror: what it has to know after its own death, what it tells others, and how it is asked to switch.

- `mirror.json`: which clusters, which broker, which topics; written whole before what follows from it is done.
- `status.json`: how far it is, written again every second.
- `at-switch.json`: what administrators had set in the target before the first partition was handed over to it, for the way back.
- `lock`: locked (flock) by the `run` or `back` that is at work.
- `switch`: there while a switch is wanted, and touched again and again by the command that waits for it.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from kafkalite.cli.migrate.evidence import sync_directory
from kafkalite.cli.mirror.administered.state import AtSwitch
from kafkalite.cli.mirror.plan import KnownTopic
from kafkalite.types import TopicPartition

_STATE: Final = "mirror.json"
_STATUS: Final = "status.json"
_AT_SWITCH: Final = "at-switch.json"
_SWITCH: Final = "switch"
_LOCK: Final = "lock"
_REQUEST_S: Final = 10.0
"""Age in seconds at which an unrenewed request is ignored."""


class MirrorFileError(Exception):
    """Raised for a directory that cannot be used; the message says why."""


@dataclass(slots=True)
class MirrorState:
    """What outlives the process. The incarnation is that of the registration, so that a restarted mirror is taken for the same broker."""

    source_cluster: str
    target_cluster: str
    broker_id: int
    incarnation: str
    topics: dict[str, KnownTopic] = field(default_factory=dict)
    highest_producer_id: int = -1
    is_switched: bool = False
    ends: dict[str, dict[str, int]] = field(default_factory=dict)
    """Where the source's partitions ended, by topic and number, when a switch began that may have handed them over."""

    def note_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Remember where partitions ended, in place of what was noted of them before."""
        for place, end in ends.items():
            self.ends.setdefault(place.topic, {})[str(place.partition)] = end

    def list_ends(self) -> dict[TopicPartition, int]:
        """Return where partitions ended."""
        return {
            TopicPartition(topic, int(number)): end for topic, some in self.ends.items() for number, end in some.items()
        }


class MirrorDirectory:
    """The files of one mirror."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lock(self) -> BinaryIO:
        """Return what keeps others from mirroring or copying back with this directory until it is closed. Raises MirrorFileError."""
        self.path.mkdir(parents=True, exist_ok=True)
        file = (self.path / _LOCK).open("wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            others = "another `kafkalite mirror run` or `kafkalite mirror back`"
            raise MirrorFileError(f"{others} is at work with {self.path}: wait for its end, or stop it") from None
        return file

    def is_running(self) -> bool:
        """True if a mirror is at work with this directory."""
        try:
            self.lock().close()
        except MirrorFileError:
            return True
        return False

    def read_state(self) -> MirrorState | None:
        """Return the state, None before there is any. Raises MirrorFileError."""
        path = self.path / _STATE
        try:
            found = json.loads(path.read_bytes())
            topics = {name: KnownTopic(**each) for name, each in found.pop("topics").items()}
            return MirrorState(topics=topics, **found)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise MirrorFileError(f"{path} is no state of a mirror: {problem}") from None

    def write_state(self, state: MirrorState) -> None:
        """Put the state on disk."""
        self._write(_STATE, asdict(state), durable=True)

    def read_at_switch(self) -> AtSwitch | None:
        """Return what the target had at the switch, None where nothing was noted of it. Raises MirrorFileError."""
        path = self.path / _AT_SWITCH
        try:
            return AtSwitch.from_json(json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise MirrorFileError(f"{path} does not tell what the target had at the switch: {problem}") from None

    def write_at_switch(self, found: AtSwitch) -> None:
        """Put what the target had at the switch, and what was brought back since, on disk."""
        self._write(_AT_SWITCH, found.to_json(), durable=True)

    def read_status(self) -> dict[str, Any]:
        """Return what the mirror told last. Raises MirrorFileError when it has told nothing yet."""
        try:
            found: dict[str, Any] = json.loads((self.path / _STATUS).read_bytes())
        except (FileNotFoundError, ValueError):
            raise MirrorFileError(f"{self.path} has no status: `kafkalite mirror run` has not been there") from None
        return found

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Tell others how far the mirror is."""
        self._write(_STATUS, status, durable=False)

    def _write(self, name: str, content: Mapping[str, Any], *, durable: bool) -> None:
        draft = self.path / f"{name}.draft"
        with draft.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        draft.replace(self.path / name)
        if durable:
            sync_directory(self.path)

    @property
    def switch_wanted(self) -> bool:
        """True while a command asks for a switch and waits for it."""
        try:
            return time.time() - (self.path / _SWITCH).stat().st_mtime < _REQUEST_S
        except FileNotFoundError:
            return False

    def request_switch(self) -> None:
        """Ask the mirror to switch."""
        (self.path / _SWITCH).touch()

    def renew_switch(self) -> None:
        """Say that the command that asked for the switch still waits."""
        with suppress(FileNotFoundError):  # the mirror has withdrawn it
            os.utime(self.path / _SWITCH)

    def withdraw_switch(self) -> None:
        """Take the request back."""
        (self.path / _SWITCH).unlink(missing_ok=True)
