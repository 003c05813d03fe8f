"""Connections between processes of this machine that can be cut pair by pair: network partitions of `LocalCluster`.

Every server is reached through a proxy of its own, whose address is the one that it advertises to the others. The process that owns a
connection's socket is found through the kernel and `/proc`, so on Linux only.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

from kafkalite.local.contract import Node, check_sides
from kafkalite.local.relay import HOST, Lane, Relay

_TCP_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL_ADDRESS, _TABLE_INODE = 1, 9
"""Columns of these tables."""
_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_REQUEST: Final = 1
_ANY_STATE: Final = 0xFFFFFFFF
_HEADER: Final = struct.Struct("=IHHII")
_INODE_POSITION: Final = 84
"""Position in an answer: behind header, states, identity and four numbers (linux/inet_diag.h)."""


class Switchboard(Relay):
    """The proxies. `process_ids` returns the running broker processes by broker id."""

    def __init__(self, process_ids: Callable[[], Mapping[int, int]]) -> None:
        super().__init__()
        self._process_ids = process_ids
        self._nodes: dict[str, Node] = {}
        self._lanes_between: dict[tuple[Node, Node], Lane] = {}
        """By who sends and who receives."""

    def add(self, node: Node, target: str) -> str:
        """Return the address, `host:port`, under which the others reach the server at `target`."""
        self._nodes[target] = node
        return self.listen(target)

    def cut(self, side: Collection[Node], other: Collection[Node], *, one_way: bool = False) -> None:
        """Cut the connections between the sides, with `one_way` those from `side` to `other`: after this call no byte passes.

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

    def repair(self) -> None:
        """Undo every `cut`."""

        async def repair() -> None:
            for lane in self._lanes_between.values():
                lane.repair()

        self._call(repair())

    def _lane(self, sender: Node, receiver: Node) -> Lane:
        return self._lanes_between.setdefault((sender, receiver), Lane())

    def _lanes(self, target: str, client_port: int, proxy_port: int) -> tuple[Lane, Lane]:
        source = self._owner(client_port, proxy_port)
        if source is None:
            raise OSError(f"nobody is known to have opened the connection from port {client_port} to {target}")
        node = self._nodes[target]
        return self._lane(source, node), self._lane(node, source)

    def _owner(self, port: int, proxy_port: int) -> int | None:
        """Return the broker that has a socket with this local port, connected to that proxy."""
        try:
            inode = _inode(port, proxy_port)
        except OSError:  # a kernel that does not tell
            inode = _inode_in_tables(port)
        name = f"socket:[{inode}]"
        for broker_id, process_id in self._process_ids().items():
            if name in _open_files(process_id):
                return broker_id
        return None


def _inode(port: int, peer_port: int) -> int | None:
    """Return the inode of the socket with this local port whose connection goes to the other one, both on this machine; asked of the
    kernel (sock_diag).

    The tables in /proc would do, and cost 10 ms each time, however few connections there are: too much when all are made again.
    """
    address = socket.inet_aton(HOST) + bytes(12)
    identity = struct.pack("!HH", port, peer_port) + address + address + bytes(4) + b"\xff" * 8
    body = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, _ANY_STATE) + identity
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.send(_HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST, 0, 0) + body)
        answer = kernel.recv(8192)
    if _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None
    inode: int = struct.unpack_from("=I", answer, _INODE_POSITION)[0]
    return inode


def _inode_in_tables(port: int) -> int | None:
    """Return the same inode from the tables in /proc."""
    wanted = f"{port:04X}"
    for table in _TCP_TABLES:
        if table.exists():
            for line in table.read_text().splitlines()[1:]:
                columns = line.split()
                if columns[_LOCAL_ADDRESS].endswith(wanted) and columns[_TABLE_INODE] != "0":
                    return int(columns[_TABLE_INODE])
    return None


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
