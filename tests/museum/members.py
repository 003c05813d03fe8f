"""Two members of a group, programs of their own, while records flow."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from tests.museum.program import Program, StepFailed
from tests.museum.stage import Visit, values_of

MOVE_TIMEOUT_S: Final = 90
"""Until partitions have another owner: sessions end, and clients try again with pauses of seconds."""


class Member:
    """A program that follows a topic as a member of a group, and what it has told."""

    def __init__(self, visit: Visit, topic: str, group: str) -> None:
        self.program = Program(visit.exhibit, visit.stage.bootstrap, visit.stage.zookeeper)
        self.seen: list[tuple[int, str]] = []
        """Partition and value of each record."""
        self._known = 0
        self.program.send("follow", topic, group)

    def listen(self) -> None:
        """Take what it has told until now. StepFailed when it has ended or tells of an error."""
        while self.program.has_answer:
            self._take()

    def kill(self) -> None:
        """As `kill -9` does; what it has told counts, because it may be committed."""
        self.program.kill()
        with suppress(StepFailed, ValueError):  # its end, or a line that it did not finish
            while True:
                self._take()

    def _take(self) -> None:
        told = self.program.receive()
        self.seen.append((told["partition"], told["value"]))

    def forget(self) -> None:
        """`partitions` begins again."""
        self._known = len(self.seen)

    @property
    def partitions(self) -> set[int]:
        """Those of the records since `forget`."""
        return {partition for partition, _ in self.seen[self._known :]}


class Flow:
    """A topic with two members, and all that was written to it."""

    def __init__(self, visit: Visit) -> None:
        self._stage = visit.stage
        self.topic = visit.topic()
        self.group = f"group-{self.topic}"
        self.members = tuple(Member(visit, self.topic, self.group) for _ in range(2))
        self._written = 0

    def close(self) -> None:
        for each in self.members:
            each.program.close()

    def write(self, count: int = 2) -> None:
        """So many records more, to both partitions in turn."""
        self._stage.write(self.topic, range(self._written, self._written + count))
        self._written += count

    def until_all_read(self, members: Sequence[Member]) -> None:
        """Every record that was ever written was told by one of the two; `members` live."""
        wanted = set(values_of(range(self._written)))

        def missing() -> set[str]:
            return wanted - {value for member in self.members for _, value in member.seen}

        _until(members, lambda: not missing(), lambda: f"not read: {sorted(missing())[:10]}")

    def until_shared(self) -> None:
        """Each of the two alone has a partition; records that are written show it."""
        self._until_owned(
            self.members, lambda: sorted(map(sorted, (each.partitions for each in self.members))), [[0], [1]]
        )

    def until_alone(self, survivor: Member) -> None:
        """One has both partitions."""
        self._until_owned([survivor], lambda: sorted(survivor.partitions), [0, 1])

    def _until_owned(self, members: Sequence[Member], look: Callable[[], object], wanted: object) -> None:
        deadline = time.monotonic() + MOVE_TIMEOUT_S
        while True:
            for each in self.members:
                each.forget()
            self.write()
            self.until_all_read(members)
            if (found := look()) == wanted:
                return
            assert time.monotonic() < deadline, f"the partitions belong to {found}"


def _until(members: Sequence[Member], condition: Callable[[], bool], what: Callable[[], str]) -> None:
    """Listen to all of them until it holds."""
    deadline = time.monotonic() + MOVE_TIMEOUT_S
    while True:
        for each in members:
            each.listen()
        if condition():
            return
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)
