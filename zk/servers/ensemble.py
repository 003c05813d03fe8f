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
import ssl
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from zk.servers.class_data import ClassData
from zk.servers.java_remedy import java_remedy
from zk.servers.server_command import java_environment, server_command
from zk.servers.server_settings import EnsembleTls, ServerPorts, ServerSettings

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
JVM_OPTIONS = (
    "-Xmx64m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:CompileThresholdScaling=10",
    "-Xshare:auto",
)
"""For a start that takes little. Java would compile what is called two hundred times: a seventh of the processor time of a start (0.60 s,
now 0.52), for what is mostly not called again.
"""
_POLL_S = 0.02
_STOP_TIMEOUT_S = 5.0
_BIND_ATTEMPTS = 5
_LOG_TAIL_BYTES = 2000
_LARGEST_SIZE = 7
_PR_SET_PDEATHSIG = 1


class EnsembleError(Exception):
    """Raised when a server did not start, or no quorum was formed; the message ends with the server's last log lines."""


class _PortTakenError(EnsembleError):
    """Raised when another process bound a port between our choice and the server's bind."""


class Member:
    """One server: its files, its ports and, while it runs, its process."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number = number
        self.folder = folder
        self.ports = ServerPorts(0, 0, 0)
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
        """`host:port` for clients; the one with TLS if there is no other."""
        return f"{HOST}:{self.ports.client or self.ports.secure}"

    @property
    def running(self) -> bool:
        """True if there is a process, paused or not."""
        return self.process is not None and self.process.poll() is None

    def send(self, signal_number: int) -> None:
        """Send a signal. Raises EnsembleError when the member does not run."""
        if self.process is None or not self.running:
            raise EnsembleError(f"ZooKeeper server {self.number} does not run")
        self.process.send_signal(signal_number)

    def log_tail(self) -> str:
        """Return the server's last log lines since its start."""
        try:
            with self.log_path.open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self.log_start, end - _LOG_TAIL_BYTES))
                return log.read().decode(errors="replace")
        except OSError:
            return ""


class Ensemble:
    """The servers of one ensemble of 1, 3 or 5 members; 7 with a note in the log.

    `client_ports` are those of the members in order; otherwise free ones are taken. `force_sync=False` lets servers skip
    fsync, which is faster and loses data only when the machine dies. The servers end with the process, on Linux even with
    the thread, that started them, unless `outlive_parent`. `classpath` stands for the jars that `find_server_classes` would find.
    With `class_data` they start sooner once the first of them has ended (`ClassData`). With `tls` clients need a certificate, and
    servers need theirs among each other; `users` may authenticate by SASL DIGEST-MD5.
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
        tls: EnsembleTls | None = None,
        users: Mapping[str, str] | None = None,
        class_data: bool = False,
    ) -> None:
        check_size(size)
        if client_ports is not None and len(set(client_ports)) != size:
            raise ValueError(f"{size} servers need as many different client ports, not {list(client_ports)}")
        self.folder = folder = folder.absolute()
        self.members = [Member(number, folder / f"zk{number}") for number in range(1, size + 1)]
        self._client_ports = client_ports
        self._server_settings = ServerSettings(
            host=HOST,
            tick_time_ms=tick_time_ms,
            min_session_timeout_ms=min_session_timeout_ms or 2 * tick_time_ms,
            tls=tls,
            users=users or {},
        )
        self._is_plaintext = tls is None or tls.keeps_plaintext
        self._tls = tls
        self._force_sync = force_sync
        self._outlive_parent = outlive_parent
        self._classpath = classpath
        self._class_data = ClassData() if class_data and classpath is None else None

    @property
    def connect(self) -> str:
        """The value for `zookeeper.connect`."""
        return ",".join(member.address for member in self.members)

    @property
    def secure_connect(self) -> str:
        """The value for `zookeeper.connect` with TLS. EnsembleError for an ensemble without."""
        if self._tls is None:
            raise EnsembleError("these ZooKeeper servers have no port with TLS")
        return ",".join(f"{HOST}:{member.ports.secure}" for member in self.members)

    def member(self, number: int) -> Member:
        """Return a member by its number, counted from 1."""
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
        """Wait until a majority serves; return the number of the leader (of the lone server, if there is one). Raises EnsembleError."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            roles = await self.roles()
            leader = find_leader(roles)
            serving = sum(role is not None for role in roles.values())
            if leader is not None and serving > len(self.members) // 2:
                return leader
            if asyncio.get_running_loop().time() > deadline:
                raise EnsembleError(f"no quorum within {timeout_s:g} s; roles are {roles}")
            await asyncio.sleep(_POLL_S)

    async def wait_serving(self, timeout_s: float = 30.0) -> dict[int, str]:
        """Wait until every member serves; return their roles. Raises EnsembleError."""
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
        """Return for each member `leader`, `follower`, `standalone`, or None for one that does not serve or does not say so in a second."""
        running = [member for member in self.members if member.running and not member.paused]
        roles = await asyncio.gather(*(self._ask_role(member) for member in running))
        found = dict(zip((member.number for member in running), roles, strict=True))
        return {member.number: found.get(member.number) for member in self.members}

    async def leader(self) -> int | None:
        """Return the number of the leader, or of the lone server; None while there is no quorum."""
        return find_leader(await self.roles())

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
        """Stop a member and start it again."""
        await self.stop_member(number)
        await self.start_member(number, timeout_s)

    async def stop_member(self, number: int) -> None:
        """Stop a member by SIGTERM, by SIGKILL if that does not help; do nothing when it does not run."""
        member = self.member(number)
        if not member.running:
            return
        if member.paused:
            self.resume(number)
        member.send(signal.SIGTERM)
        ended = await self._wait_for_end(member, _STOP_TIMEOUT_S)
        if not ended:
            await self.kill(number)
        if self._class_data is not None and number == 1:
            self._class_data.keep_archive(cleanly=ended)

    async def kill(self, number: int) -> None:
        """Kill a member by SIGKILL, and wait until the process is gone."""
        member = self.member(number)
        member.send(signal.SIGKILL)
        member.paused = False
        if not await self._wait_for_end(member, _STOP_TIMEOUT_S):
            raise EnsembleError(f"ZooKeeper server {number} survived SIGKILL")

    def pause(self, number: int) -> None:
        """Pause a member by SIGSTOP: connections stay open, nothing is answered."""
        self.member(number).send(signal.SIGSTOP)
        self.member(number).paused = True

    def resume(self, number: int) -> None:
        """Resume a member by SIGCONT."""
        self.member(number).send(signal.SIGCONT)
        self.member(number).paused = False

    # -- inside

    def _choose_ports(self) -> None:
        """Choose the ports. Those that were asked for are the ports with TLS where there are no others."""
        wanted = iter(self._client_ports or ())
        free = iter(free_ports(4 * len(self.members)))
        for member in self.members:
            quorum, election = next(free), next(free)
            client = next(wanted, 0) or next(free)
            if self._is_plaintext:
                member.ports = ServerPorts(client, quorum, election, next(free) if self._tls is not None else 0)
            else:
                member.ports = ServerPorts(0, quorum, election, client)

    def _context(self, member: Member) -> ssl.SSLContext | None:
        """Return the TLS context to ask a server how it is; None where it has a port without TLS."""
        return self._tls.client() if self._tls is not None and not member.ports.client else None

    async def _ask_role(self, member: Member) -> str | None:
        return await server_role(HOST, member.ports.client or member.ports.secure, context=self._context(member))

    async def _serves(self, member: Member) -> bool:
        """True if this member serves, and not another server on its port."""
        if await self._ask_role(member) is None:
            return False
        port = member.ports.client or member.ports.secure
        settings = await four_letter_word(HOST, port, "conf", context=self._context(member))
        return f"dataDir={member.data_path}" in (settings or "")

    def _launch(self, member: Member) -> None:
        member.data_path.mkdir(parents=True, exist_ok=True)
        member.data_path.joinpath("myid").write_text(f"{member.number}\n")
        settings_path = member.folder / "zoo.cfg"
        ports = {each.number: each.ports for each in self.members}
        settings_path.write_text(self._server_settings.text(member.data_path, member.ports, ports))
        jvm_options = [*JVM_OPTIONS]
        if (jaas := self._server_settings.jaas) is not None:
            jaas_path = member.folder / "jaas.conf"
            jaas_path.touch(0o600)
            jaas_path.write_text(jaas, encoding="utf-8")
            jvm_options.append(f"-Djava.security.auth.login.config={jaas_path.as_uri()}")
        if self._class_data is not None:
            jvm_options += self._class_data.jvm_options(writes=member.number == 1)
        command = server_command(
            settings_path, member.folder, jvm_options, classpath=self._classpath, force_sync=self._force_sync
        )
        with member.log_path.open("ab") as log:
            member.log_start = log.tell()
            member.process = start_process(command, member.folder, log, outlive_parent=self._outlive_parent)
        member.paused = False
        if not self._outlive_parent:
            _running.add(member.process)

    async def _wait_serving(self, members: Sequence[Member], timeout_s: float) -> None:
        deadline = asyncio.get_running_loop().time() + timeout_s
        waiting = list(members)
        while waiting:
            for member in waiting:
                _raise_if_ended(member)
            serving = await asyncio.gather(*map(self._serves, waiting))
            waiting = [member for member, serves in zip(waiting, serving, strict=True) if not serves]
            if waiting and asyncio.get_running_loop().time() > deadline:
                numbers = ", ".join(str(member.number) for member in waiting)
                raise EnsembleError(
                    f"ZooKeeper server {numbers} does not serve after {timeout_s:g} s; it logged:\n{waiting[0].log_tail()}"
                )
            await asyncio.sleep(_POLL_S if waiting else 0)

    async def _wait_for_end(self, member: Member, timeout_s: float) -> bool:
        deadline = asyncio.get_running_loop().time() + timeout_s
        while member.running:
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(_POLL_S)
        if member.process is not None:
            _running.discard(member.process)
        return True


def start_process(
    command: Sequence[str], folder: Path, output: BinaryIO, *, outlive_parent: bool
) -> subprocess.Popen[bytes]:
    """Start a server that works in `folder`; on Linux it ends with the thread that starts it, unless it may outlive that."""
    return subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=java_environment(),
        start_new_session=True,
        preexec_fn=None if outlive_parent else end_with_parent(),
    )


def check_size(size: int) -> None:
    """Raise ValueError for sizes that make no sense, with the reason; warn of 7 in the log."""
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


def find_leader(roles: Mapping[int, str | None]) -> int | None:
    """Return the number of the leader, or of the lone server, by the servers' roles."""
    return next((number for number, role in roles.items() if role in ("leader", "standalone")), None)


async def server_role(
    host: str, port: int, timeout_s: float = 1.0, context: ssl.SSLContext | None = None
) -> str | None:
    """Return the mode that the server reports to `srvr`: `leader`, `follower`, `standalone`; None when it does not serve."""
    answer = await four_letter_word(host, port, "srvr", timeout_s, context)
    lines = (answer or "").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("Mode:")), None)


async def four_letter_word(
    host: str, port: int, word: str, timeout_s: float = 1.0, context: ssl.SSLContext | None = None
) -> str | None:
    """Return the answer to a command such as `ruok` or `mntr`; None when there is none in time."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            writer.write(word.encode())
            return (await reader.read()).decode(errors="replace")
    except (OSError, TimeoutError):
        return None
    finally:
        if writer is not None:
            writer.transport.abort()


def free_ports(count: int) -> list[int]:
    """Return different TCP ports that nobody listens on at this moment."""
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


def _raise_if_ended(member: Member) -> None:
    tail = member.log_tail()
    if "Address already in use" in tail or "BindException" in tail:
        raise _PortTakenError(f"a port of ZooKeeper server {member.number} is taken: {member.ports}")
    if not member.running:
        code = member.process.returncode if member.process else None
        raise EnsembleError(
            f"ZooKeeper server {member.number} ended with status {code}{_remedy(tail)}; it logged:\n{tail}"
        )


def _remedy(logged: str) -> str:
    """Return the remedy for a server's end, where its log shows one."""
    if "UnsupportedClassVersionError" in logged or "Unrecognized VM option" in logged:
        return f" because its Java is too old ({java_remedy()}, or set JAVA_HOME to a newer one)"
    if "No space left on device" in logged:
        return " because the disk is full"
    return ""


_running: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()


@atexit.register
def _kill_running() -> None:
    """End what nobody stopped, with this process."""
    for process in list(_running):
        if process.poll() is None:
            process.kill()


def end_with_parent(signal_number: int = signal.SIGKILL) -> Callable[[], object] | None:
    """Return `preexec_fn` for Popen: on Linux the kernel signals the child when the thread that starts it ends; elsewhere None."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal_number)
