"""Ways between processes of this machine, to be cut pair by pair: how `LocalCluster` makes network partitions.

Every server is reached through a proxy of its own, whose address is the one that it advertises to the others. Who opens a
connection is found out by the process that owns its socket (`/proc`, so on Linux only).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

from kafkalite.local.contract import Node, check_sides
from kafkalite.local.relay import Lane, Relay

_TCP_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL_ADDRESS, _INODE = 1, 9
"""Columns of these tables."""


class Switchboard(Relay):
    """`process_ids` tells the broker processes that run now, by broker id."""

    def __init__(self, process_ids: Callable[[], Mapping[int, int]]) -> None:
        super().__init__()
        self._process_ids = process_ids
        self._nodes: dict[str, Node] = {}
        self._lanes_between: dict[tuple[Node, Node], Lane] = {}
        """By who sends and who receives."""

    def add(self, node: Node, target: str) -> str:
        """The address, `host:port`, under which the others reach the server at `target`."""
        self._nodes[target] = node
        return self.listen(target)

    def cut(self, side: Collection[Node], other: Collection[Node], *, one_way: bool = False) -> None:
        """From the return of this call on nothing passes between the sides, with `one_way` nothing from `side` to `other`.

        Raises ValueError for pairs that cannot be cut.
        """
        check_sides(side, other, self._nodes.values())
        if any(isinstance(node, str) for node in side) and any(isinstance(node, str) for node in other):
            raise ValueError("ZooKeeper servers of a LocalCluster cannot be cut from each other; KafkaliteCluster can")
        pairs = {(one, two) for one in side for two in other}
        if not one_way:
            pairs |= {(two, one) for one, two in pairs}

        async def cut() -> None:
            for pair in pairs:
                self._lane(*pair).cut()

        self._call(cut())

    def mend(self) -> None:
        """Undo every `cut`."""

        async def mend() -> None:
            for lane in self._lanes_between.values():
                lane.mend()

        self._call(mend())

    def _lane(self, sender: Node, receiver: Node) -> Lane:
        return self._lanes_between.setdefault((sender, receiver), Lane())

    def _lanes(self, target: str, client_port: int) -> tuple[Lane, Lane]:
        source = self._owner(client_port)
        if source is None:
            raise OSError(f"nobody is known to have opened the connection from port {client_port} to {target}")
        node = self._nodes[target]
        return self._lane(source, node), self._lane(node, source)

    def _owner(self, port: int) -> int | None:
        """The broker that has a socket with this local port."""
        inodes = {f"socket:[{inode}]" for inode in _inodes(port)}
        for broker_id, process_id in self._process_ids().items():
            if not inodes.isdisjoint(_open_files(process_id)):
                return broker_id
        return None


def _inodes(port: int) -> set[str]:
    """Of the sockets with this local port."""
    wanted = f"{port:04X}"
    found = set()
    for table in _TCP_TABLES:
        if table.exists():
            for line in table.read_text().splitlines()[1:]:
                columns = line.split()
                if columns[_LOCAL_ADDRESS].endswith(wanted):
                    found.add(columns[_INODE])
    return found


def _open_files(process_id: int) -> set[str]:
    names = set()
    try:
        for descriptor in os.scandir(f"/proc/{process_id}/fd"):
            try:
                names.add(os.readlink(descriptor.path))
            except OSError:
                pass  # closed meanwhile
    except OSError:
        pass  # the process is gone
    return names
