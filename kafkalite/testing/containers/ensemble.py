"""Real ZooKeeper servers in containers: 1, 3 or 5 of them."""

from __future__ import annotations

import asyncio
import atexit
import time
from collections.abc import Mapping
from typing import Final, Self

from testcontainers.core.network import Network

from kafkalite.local.contract import LIVE_CLUSTERS
from kafkalite.local.parallel import run_at_once
from kafkalite.testing.containers.security import SECURE_CLIENT_PORT, ContainerSecurity
from kafkalite.testing.containers.server import ServerContainer, ServerNetwork, closed_on_failure
from zk.servers.ensemble import EnsembleError, check_size, find_leader, server_role

CLIENT_PORT: Final = 2181
_POLL_S: Final = 0.1
_SERVING: Final = frozenset({"leader", "follower", "standalone"})


class ZooKeeperEnsemble:
    """`size` servers, by the names `zk1`, `zk2` and so on, on `network` or on one of their own.

        >>> from kafkalite.testing.containers import ZooKeeperEnsemble
        >>> with ZooKeeperEnsemble(3) as ensemble:
        ...     leader = ensemble.wait_quorum()
        ...     ensemble.kill(leader)
        ...     assert ensemble.wait_quorum() != leader
        ...     sorted(role or "down" for role in ensemble.roles().values())
        ['down', 'follower', 'leader']

    `connect` is for clients on this machine, `internal_connect` for containers on the network. `variables` are those of the
    image cp-zookeeper. A short tick, as here, allows short session timeouts: at least two ticks. With `security` only those who have a
    certificate of that cluster come in.
    """

    def __init__(
        self,
        size: int = 1,
        *,
        image: str | None = None,
        network: Network | None = None,
        tick_time_ms: int = 500,
        variables: Mapping[str, str] | None = None,
        start_timeout_s: float = 60,
        security: ContainerSecurity | None = None,
    ) -> None:
        check_size(size)
        self._size = size
        self._image = image
        self._network = ServerNetwork(network)
        self.network: Final = self._network.network
        self._variables = {
            "ZOOKEEPER_CLIENT_PORT": str(CLIENT_PORT),
            "ZOOKEEPER_TICK_TIME": str(tick_time_ms),
            "ZOOKEEPER_INIT_LIMIT": "20",
            "ZOOKEEPER_SYNC_LIMIT": "10",
            "ZOOKEEPER_MAX_SESSION_TIMEOUT": "120000",
            "KAFKA_HEAP_OPTS": "-Xmx96m",
        } | dict(variables or {})
        self._start_timeout_s = start_timeout_s
        self._security = security
        self._port = CLIENT_PORT if security is None else SECURE_CLIENT_PORT
        if security is not None:
            self._variables |= security.zookeeper_variables
        self.members: list[ServerContainer] = []

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *problem: object) -> None:
        self.close()

    def start(self) -> Self:
        """Start all servers at once, and wait until every one of them serves. Raises EnsembleError."""
        with closed_on_failure(self, self.close):
            self._network.create()
            run_at_once(member.start for member in self.prepare())
            self.wait_serving(self._start_timeout_s)
        return self

    def prepare(self) -> list[ServerContainer]:
        """Make the containers, for somebody else to start."""
        servers = ";".join(f"zk{number}:2888:3888" for number in range(1, self._size + 1))
        ensemble = {"ZOOKEEPER_SERVERS": servers} if self._size > 1 else {}
        self.members = [
            ServerContainer(
                self._image,
                f"zk{number}",
                self._port,
                self._variables | ensemble | {"ZOOKEEPER_SERVER_ID": str(number)},
                self.network,
            )
            for number in range(1, self._size + 1)
        ]
        if self._security is not None:
            for member in self.members:
                self._security.mount(member)
        return self.members

    def close(self) -> None:
        """Remove the containers, and the network if it is the ensemble's own; may be called again."""
        atexit.unregister(self.close)
        LIVE_CLUSTERS.discard(self)
        members, self.members = self.members, []
        try:
            run_at_once(member.stop for member in members)
        finally:
            self._network.remove()

    @property
    def connect(self) -> str:
        """The value for `zookeeper.connect` on this machine."""
        return ",".join(member.address for member in self.members)

    @property
    def internal_connect(self) -> str:
        """The value for `zookeeper.connect` in containers on the network."""
        return ",".join(f"zk{number}:{self._port}" for number in range(1, self._size + 1))

    def member(self, number: int) -> ServerContainer:
        """Return a server by its number, counted from 1."""
        return self.members[number - 1]

    def roles(self) -> dict[int, str | None]:
        """Return for each member `leader`, `follower`, `standalone`, or None for one that does not serve or does not say so in a second."""

        context = None if self._security is None else self._security.cluster.context()

        async def ask_all() -> list[str | None]:
            asked = (server_role(member.host, member.port, context=context) for member in self.members)
            return await asyncio.gather(*asked)

        return dict(enumerate(asyncio.run(ask_all()), 1))

    def leader(self) -> int | None:
        """Return the number of the leader, or of the lone server; None while there is no quorum."""
        return find_leader(self.roles())

    def wait_quorum(self, timeout_s: float = 30) -> int:
        """Wait until a leader and a majority serve; return the leader's number. Raises EnsembleError."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            roles = self.roles()
            leader = find_leader(roles)
            if leader is not None and sum(role in _SERVING for role in roles.values()) > self._size // 2:
                return leader
            self._check(deadline_s, f"no quorum within {timeout_s:g} s; roles are {roles}")

    def wait_serving(self, timeout_s: float = 30) -> dict[int, str]:
        """Wait until every server serves; return their roles. Raises EnsembleError with the last lines of the log of one that does not."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            roles = self.roles()
            serving = {number: role for number, role in roles.items() if role in _SERVING}
            if len(serving) == self._size:
                return serving
            silent = sorted(roles.keys() - serving.keys())
            member = self.member(silent[0])
            if not member.running:
                raise EnsembleError(f"{member.server_name} ended with {member.exit_status}:\n{member.log_tail()}")
            late = f"ZooKeeper servers {silent} do not serve after {timeout_s:g} s; zk{silent[0]} logged:\n"
            self._check(deadline_s, late, member)

    def _check(self, deadline_s: float, text: str, member: ServerContainer | None = None) -> None:
        if time.monotonic() > deadline_s:
            raise EnsembleError(text + (member.log_tail() if member is not None else ""))
        time.sleep(_POLL_S)

    def kill(self, number: int) -> None:
        """Kill a server, as SIGKILL does; returns when it is gone."""
        self.member(number).kill()

    def stop(self, number: int) -> int:
        """Stop a server by SIGTERM; return the exit status, 143 as of any Java program that obeys."""
        return self.member(number).shut_down()

    def pause(self, number: int) -> None:
        self.member(number).pause()

    def unpause(self, number: int) -> None:
        self.member(number).unpause()

    def restart(self, number: int) -> None:
        """Stop it if it runs, and start it, with its port and data; does not wait for it to serve, which takes a quorum."""
        if self.member(number).running:
            self.stop(number)
        self.member(number).start_again()

    def logs(self, lines: int = 60) -> dict[str, str]:
        """Return the last lines of all logs, for the report of a failing test."""
        return {
            f"ZooKeeper {member.server_name} at port {member.port}": member.log_tail(lines) for member in self.members
        }
