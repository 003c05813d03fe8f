"""Real ZooKeeper servers as processes of this machine: 1, 3 or 5 of them, to be stopped, killed, paused and restarted.

Below the ensemble's folder each member has a folder of its own, `zk1` and so on: `zoo.cfg`, `server.log`, `data/`. Members
are counted from 1, as ZooKeeper's `myid`. Ports and data stay when a member is started again. All servers listen on the
loopback address only.

`tick_time_ms` is short by default, because a server grants no session timeout below `min_session_timeout_ms` (two ticks
unless set) and so no quick failure detection.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import logging
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from zk.server_command import server_command

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
_JVM_OPTIONS = ("-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_POLL_S = 0.02
_STOP_TIMEOUT_S = 5.0
_BIND_ATTEMPTS = 5
_LOG_TAIL_BYTES = 2000
_LARGEST_SIZE = 7
_PR_SET_PDEATHSIG = 1


class EnsembleError(Exception):
    """A server did not start, or no quorum was formed; the message ends with what the server logged last."""


class _PortTakenError(EnsembleError):
    """Somebody else bound a port between our choice and the server's bind."""


@dataclass(frozen=True, slots=True)
class _Ports:
    client: int
    quorum: int
    election: int


class Member:
    """One server: its files, its ports and, while it runs, its process."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number = number
        self.folder = folder
        self.ports = _Ports(0, 0, 0)
        self.process: subprocess.Popen[bytes] | None = None
        self.paused = False
        self.log_start = 0

    @property
    def log_path(self) -> Path:
        return self.folder / "server.log"

    @property
    def data_path(self) -> Path:
        return self.folder / "data"

    @property
    def address(self) -> str:
        """`host:port` for clients."""
        return f"{HOST}:{self.ports.client}"

    @property
    def running(self) -> bool:
        """Is there a process, paused or not?"""
        return self.process is not None and self.process.poll() is None

    def send(self, signal_number: int) -> None:
        """EnsembleError when the member does not run."""
        if self.process is None or not self.running:
            raise EnsembleError(f"ZooKeeper server {self.number} does not run")
        self.process.send_signal(signal_number)

    def log_tail(self) -> str:
        """What the server logged last, since it was started."""
        try:
            with self.log_path.open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self.log_start, end - _LOG_TAIL_BYTES))
                return log.read().decode(errors="replace")
        except OSError:
            return ""


class Ensemble:
    """See the module. Sizes: 1, 3 and 5; 7 with a note in the log.

    `client_ports` are those of the members in order; otherwise free ones are taken. `force_sync=False` lets servers skip
    fsync, which is faster and loses data only when the machine dies. The servers end with the process, on Linux even with
    the thread, that started them, unless `outlive_parent`. `classpath` stands for the jars that `find_server_classes` would find.
    """

    def __init__(
        self,
        folder: Path,
        size: int = 1,
        *,
        client_ports: Sequence[int] | None = None,
        tick_time_ms: int = 500,
        min_session_timeout_ms: int | None = None,
        force_sync: bool = True,
        outlive_parent: bool = False,
        classpath: Sequence[Path] | None = None,
    ) -> None:
        check_size(size)
        if client_ports is not None and len(set(client_ports)) != size:
            raise ValueError(f"{size} servers need as many different client ports, not {list(client_ports)}")
        self.folder = folder = folder.absolute()
        self.members = [Member(number, folder / f"zk{number}") for number in range(1, size + 1)]
        self._client_ports = client_ports
        self._tick_time_ms = tick_time_ms
        self._min_session_timeout_ms = min_session_timeout_ms or 2 * tick_time_ms
        self._force_sync = force_sync
        self._outlive_parent = outlive_parent
        self._classpath = classpath

    @property
    def connect(self) -> str:
        """The value for `zookeeper.connect`."""
        return ",".join(member.address for member in self.members)

    def member(self, number: int) -> Member:
        """By its number, counted from 1."""
        return self.members[number - 1]

    # -- all of it

    async def start(self, timeout_s: float = 30.0) -> None:
        """Start all servers at once and wait until they serve. Raises EnsembleError, MissingRequirementError."""
        for attempt in range(1, _BIND_ATTEMPTS + 1):
            self._choose_ports()
            try:
                for member in self.members:
                    self._launch(member)
                await self._wait_serving(self.members, timeout_s)
                return
            except _PortTakenError as problem:
                await self.stop()
                if attempt == _BIND_ATTEMPTS or not all(_is_free(port) for port in self._client_ports or ()):
                    raise
                logger.info("starting ZooKeeper on other ports: %s", problem)
            except BaseException:
                await self.stop()
                raise

    async def stop(self) -> None:
        """Stop every member that runs, paused ones too."""
        await asyncio.gather(*(self.stop_member(member.number) for member in self.members))

    async def wait_quorum(self, timeout_s: float = 30.0) -> int:
        """Until a majority serves; the number of the leader (of the lone server, if there is one). Raises EnsembleError."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            roles = await self.roles()
            leader = next((number for number, role in roles.items() if role in ("leader", "standalone")), None)
            serving = sum(role is not None for role in roles.values())
            if leader is not None and serving > len(self.members) // 2:
                return leader
            if asyncio.get_running_loop().time() > deadline:
                raise EnsembleError(f"no quorum within {timeout_s:g} s; roles are {roles}")
            await asyncio.sleep(_POLL_S)

    async def wait_serving(self, timeout_s: float = 30.0) -> dict[int, str]:
        """Until every member serves; their roles. Raises EnsembleError."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            roles = await self.roles()
            serving = {number: role for number, role in roles.items() if role is not None}
            if len(serving) == len(roles):
                return serving
            if asyncio.get_running_loop().time() > deadline:
                raise EnsembleError(f"not every server serves within {timeout_s:g} s; roles are {roles}")
            await asyncio.sleep(_POLL_S)

    async def roles(self) -> dict[int, str | None]:
        """By member: `leader`, `follower`, `standalone`, or None for one that does not serve or does not say so in a second."""
        running = [member for member in self.members if member.running and not member.paused]
        roles = await asyncio.gather(*(server_role(HOST, member.ports.client) for member in running))
        found = dict(zip((member.number for member in running), roles, strict=True))
        return {member.number: found.get(member.number) for member in self.members}

    async def leader(self) -> int | None:
        """The number of the leader, or of the lone server; None while there is no quorum."""
        roles = await self.roles()
        return next((number for number, role in roles.items() if role in ("leader", "standalone")), None)

    # -- one member

    async def start_member(self, number: int, timeout_s: float | None = 30.0) -> None:
        """Start a member that was stopped or killed, on its ports and data.

        Returns when it serves, which takes a quorum; at once if `timeout_s` is None. Raises EnsembleError.
        """
        member = self.member(number)
        if member.running:
            raise EnsembleError(f"ZooKeeper server {number} runs already")
        self._launch(member)
        if timeout_s is not None:
            await self._wait_serving([member], timeout_s)

    async def restart_member(self, number: int, timeout_s: float | None = 30.0) -> None:
        """Stop and start."""
        await self.stop_member(number)
        await self.start_member(number, timeout_s)

    async def stop_member(self, number: int) -> None:
        """SIGTERM, and SIGKILL if that does not help; nothing when it does not run."""
        member = self.member(number)
        if not member.running:
            return
        if member.paused:
            self.resume(number)
        member.send(signal.SIGTERM)
        if not await self._wait_ended(member, _STOP_TIMEOUT_S):
            await self.kill(number)

    async def kill(self, number: int) -> None:
        """SIGKILL, and wait until the process is gone."""
        member = self.member(number)
        member.send(signal.SIGKILL)
        member.paused = False
        if not await self._wait_ended(member, _STOP_TIMEOUT_S):
            raise EnsembleError(f"ZooKeeper server {number} survived SIGKILL")

    def pause(self, number: int) -> None:
        """SIGSTOP: connections stay open, nothing is answered."""
        self.member(number).send(signal.SIGSTOP)
        self.member(number).paused = True

    def resume(self, number: int) -> None:
        """SIGCONT."""
        self.member(number).send(signal.SIGCONT)
        self.member(number).paused = False

    # -- inside

    def _choose_ports(self) -> None:
        needed = 2 if self._client_ports is not None else 3
        free = iter(free_ports(needed * len(self.members)))
        for index, member in enumerate(self.members):
            client = self._client_ports[index] if self._client_ports is not None else next(free)
            member.ports = _Ports(client, next(free), next(free))

    def _launch(self, member: Member) -> None:
        member.data_path.mkdir(parents=True, exist_ok=True)
        member.data_path.joinpath("myid").write_text(f"{member.number}\n")
        settings_path = member.folder / "zoo.cfg"
        settings_path.write_text(self._settings(member))
        command = server_command(
            settings_path, member.folder, _JVM_OPTIONS, classpath=self._classpath, force_sync=self._force_sync
        )
        with member.log_path.open("ab") as log:
            member.log_start = log.tell()
            member.process = subprocess.Popen(
                command,
                cwd=member.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=None if self._outlive_parent else end_with_parent(),
            )
        member.paused = False
        if not self._outlive_parent:
            _running.add(member.process)

    def _settings(self, member: Member) -> str:
        lines = [
            f"tickTime={self._tick_time_ms}",
            "initLimit=20",
            "syncLimit=10",
            f"minSessionTimeout={self._min_session_timeout_ms}",
            "maxSessionTimeout=120000",
            f"dataDir={member.data_path}",
            f"clientPort={member.ports.client}",
            f"clientPortAddress={HOST}",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "4lw.commands.whitelist=conf,mntr,ruok,srvr",  # none that names sessions or paths
            "autopurge.snapRetainCount=3",
            "autopurge.purgeInterval=1",
        ]
        if len(self.members) > 1:
            lines += [f"server.{m.number}={HOST}:{m.ports.quorum}:{m.ports.election}" for m in self.members]
        return "\n".join(lines) + "\n"

    async def _wait_serving(self, members: Sequence[Member], timeout_s: float) -> None:
        deadline = asyncio.get_running_loop().time() + timeout_s
        waiting = list(members)
        while waiting:
            for member in waiting:
                _raise_if_ended(member)
            serving = await asyncio.gather(*map(_serves, waiting))
            waiting = [member for member, serves in zip(waiting, serving, strict=True) if not serves]
            if waiting and asyncio.get_running_loop().time() > deadline:
                numbers = ", ".join(str(member.number) for member in waiting)
                raise EnsembleError(
                    f"ZooKeeper server {numbers} does not serve after {timeout_s:g} s; it logged:\n{waiting[0].log_tail()}"
                )
            await asyncio.sleep(_POLL_S if waiting else 0)

    async def _wait_ended(self, member: Member, timeout_s: float) -> bool:
        deadline = asyncio.get_running_loop().time() + timeout_s
        while member.running:
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(_POLL_S)
        if member.process is not None:
            _running.discard(member.process)
        return True


def check_size(size: int) -> None:
    """ValueError for sizes that make no sense, with the reason; a line in the log for 7."""
    if size < 1:
        raise ValueError(f"an ensemble of {size} servers serves nobody")
    if size % 2 == 0:
        raise ValueError(
            f"an ensemble of {size} servers survives no more failures than one of {size - 1}, "
            "because a majority is needed either way; use an odd number"
        )
    if size > _LARGEST_SIZE:
        raise ValueError(
            f"an ensemble of {size} servers is too large: every write waits for a majority of them; use 3 or 5, at most 7"
        )
    if size == _LARGEST_SIZE:
        logger.warning("7 ZooKeeper servers survive 3 failures, but make every write slower than 5 do")


async def server_role(host: str, port: int, timeout_s: float = 1.0) -> str | None:
    """What the server answers to `srvr` as its mode: `leader`, `follower`, `standalone`; None when it does not serve."""
    answer = await four_letter_word(host, port, "srvr", timeout_s)
    lines = (answer or "").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("Mode:")), None)


async def four_letter_word(host: str, port: int, word: str, timeout_s: float = 1.0) -> str | None:
    """The answer to a command such as `ruok` or `mntr`; None when there is none in time."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(word.encode())
            return (await reader.read()).decode(errors="replace")
    except (OSError, TimeoutError):
        return None
    finally:
        if writer is not None:
            writer.transport.abort()


def free_ports(count: int) -> list[int]:
    """Different TCP ports that nobody listens on at this moment."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for found in sockets:
            found.bind((HOST, 0))
        return [found.getsockname()[1] for found in sockets]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does: a recent connection is no owner
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


async def _serves(member: Member) -> bool:
    """Does this member serve, and not some other server that has its port?"""
    if await server_role(HOST, member.ports.client) is None:
        return False
    settings = await four_letter_word(HOST, member.ports.client, "conf")
    return f"dataDir={member.data_path}" in (settings or "")


def _raise_if_ended(member: Member) -> None:
    tail = member.log_tail()
    if "Address already in use" in tail or "BindException" in tail:
        raise _PortTakenError(f"a port of ZooKeeper server {member.number} is taken: {member.ports}")
    if not member.running:
        code = member.process.returncode if member.process else None
        raise EnsembleError(f"ZooKeeper server {member.number} ended with status {code}; it logged:\n{tail}")


_running: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()


@atexit.register
def _kill_running() -> None:
    """An ensemble that nobody stopped ends with this process."""
    for process in list(_running):
        if process.poll() is None:
            process.kill()


def end_with_parent(signal_number: int = signal.SIGKILL) -> Callable[[], object] | None:
    """`preexec_fn` for Popen: on Linux the kernel signals the child when the thread that starts it ends; elsewhere None."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal_number)
