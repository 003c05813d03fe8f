"""Which servers in containers hear which others, and making it so."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from kafkalite.local.contract import Node, check_sides
from kafkalite.local.parallel import run_at_once
from kafkalite.testing.containers.server import ServerContainer


class NetworkCuts:
    """The pairs that are cut from each other, and the cuts that each container has so far.

    A container that starts again has lost its cuts, and may have another address: `forget` it, then `apply`.
    """

    def __init__(self) -> None:
        self._pairs: set[frozenset[Node]] = set()
        self._told: dict[Node, set[str]] = {}

    def cut(self, side: Collection[Node], other: Collection[Node], known: Collection[Node]) -> None:
        """Cut two sides from each other. ValueError for a server that is not in `known`, and for one that is on both sides."""
        check_sides(side, other, known)
        self._pairs |= {frozenset((one, two)) for one in side for two in other}

    def repair(self) -> None:
        self._pairs.clear()

    def forget(self, node: Node) -> None:
        """Forget the cuts of a container that has started again."""
        self._told.pop(node, None)

    def apply(self, servers: Mapping[Node, ServerContainer]) -> None:
        """Give every container that runs the cuts that it lacks; a paused one gets them when it goes on."""
        if not self._pairs and not any(self._told.values()):
            return
        running = {node: server for node, server in servers.items() if server.state == "running"}
        addresses = {node: server.network_address for node, server in servers.items() if server.running}
        run_at_once(partial(self._tell, node, server, addresses) for node, server in running.items())

    def _tell(self, node: Node, server: ServerContainer, addresses: Mapping[Node, str]) -> None:
        wanted = {address for peer, address in addresses.items() if frozenset((node, peer)) in self._pairs}
        told = self._told.setdefault(node, set())
        server.silence(wanted - told)
        server.hear(told - wanted)
        self._told[node] = wanted
