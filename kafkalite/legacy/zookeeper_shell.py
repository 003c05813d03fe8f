"""`zookeeper-shell`: run commands on a ZooKeeper ensemble, one on the command line or one on each line of stdin."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkalite.legacy.cluster.zookeeper_store import tool_security
from kafkalite.legacy.command_line.entry import run_tool
from kafkalite.legacy.command_line.failures import TerseError, ToolError
from kafkalite.timestamps import java_date_text
from zk.security.store_security import PLAINTEXT, StoreSecurity

if TYPE_CHECKING:
    from kazoo.client import KazooClient

_SESSION_TIMEOUT_S: Final = 30.0
_ANY_VERSION: Final = -1
_UNKNOWN_COMMAND: Final = 127
_CONNECTED: Final = "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null"
_CLOSED: Final = "\nWATCHER::\n\nWatchedEvent state:Closed type:None path:null"


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    if not arguments:
        program = os.path.basename(sys.argv[0])
        print(f"USAGE: {program} zookeeper_host:port[/path] [-zk-tls-config-file file] [args...]")
        return 1
    servers, *words = arguments
    tls_config_file = None
    if words[:1] == ["-zk-tls-config-file"]:
        tls_config_file, words = next(iter(words[1:]), None), words[2:]
    security = tool_security(tls_config_file)
    print(f"Connecting to {servers}", flush=True)
    shell = Shell(servers, security)
    try:
        if words:
            return shell.run(words)
        return _read_commands(shell)
    finally:
        shell.close()


def _read_commands(shell: Shell) -> int:
    """Run every line of stdin as a command; errors do not end the shell."""
    print("Welcome to ZooKeeper!")
    on_terminal = sys.stdin.isatty()
    if not on_terminal:
        print("JLine support is disabled")
    shell.connect()
    number = 0
    while True:
        if on_terminal:
            print(f"[zk: {shell.servers}(CONNECTED) {number}] ", end="", flush=True)
        try:
            line = sys.stdin.readline()
        except OSError as problem:
            raise ToolError(f"cannot read standard input: {problem.strerror}", "java.io.IOException") from None
        if not line:
            return 0
        words = shlex.split(line, posix=True)
        if not words:
            continue
        number += 1
        if words[0] == "quit":
            print(_CLOSED)
            return 0
        shell.run(words)


class Misuse(Exception):
    """Raised for an invalid command. The message is that of ZooKeeper's shell."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a command: options by letter, with values where they take one, and the other words."""

    options: dict[str, str]
    rest: list[str]

    def has(self, option: str) -> bool:
        return option in self.options

    def version(self) -> int:
        """Return the --version argument. Raises ToolError when it is no number."""
        given = self.options.get("v", str(_ANY_VERSION))
        if not given.removeprefix("-").isdigit():
            raise Misuse(f'For input string: "{given}"')
        return int(given)


class Shell:
    """One session, connected by the first command that needs it."""

    def __init__(self, servers: str, security: StoreSecurity = PLAINTEXT) -> None:
        self.servers, self._security = servers, security
        self._client: KazooClient | None = None

    def connect(self) -> KazooClient:
        if self._client is None:
            from kazoo.handlers.threading import KazooTimeoutError

            from zk.kazoo_adapter.kazoo_client import threaded_client

            client = threaded_client(self.servers, _SESSION_TIMEOUT_S, self._security)
            try:
                client.start(timeout=_SESSION_TIMEOUT_S)
            except KazooTimeoutError:
                raise TerseError("KeeperErrorCode = ConnectionLoss") from None
            self._client = client
            print(_CONNECTED, flush=True)
        return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.stop()
            self._client.close()

    def run(self, words: Sequence[str]) -> int:
        """Run a command and return its exit status. Errors are printed on stderr."""
        command = _COMMANDS.get(words[0])
        if command is None:
            from kafkalite.legacy.command_line.help_texts import option_table

            self.connect()
            return _complain(
                f"{option_table('zookeeper-shell')}Command not found: Command not found {words[0]}", _UNKNOWN_COMMAND
            )
        try:
            arguments = command.read(words[1:])
            self.connect()
            command.action(self, arguments)
        except Misuse as problem:
            return _complain(str(problem))
        except Exception as problem:
            told = _explanation(problem, arguments.rest[0] if arguments.rest else "")
            if told is None:
                raise
            return _complain(told)
        sys.stdout.flush()
        return 0

    # commands

    def ls(self, arguments: Arguments) -> None:
        client, path = self.connect(), arguments.rest[0]
        if arguments.has("R"):
            for each in _subtree(client, path):
                print(each)
            return
        children, stat = client.get_children(path, include_data=True)
        print(f"[{', '.join(sorted(children))}]")
        if arguments.has("s"):
            _print_stat(stat)

    def get(self, arguments: Arguments) -> None:
        data, stat = self.connect().get(arguments.rest[0])
        _print_data(data)
        if arguments.has("s"):
            _print_stat(stat)

    def stat(self, arguments: Arguments) -> None:
        _, stat = self.connect().get(arguments.rest[0])
        _print_stat(stat)

    def set(self, arguments: Arguments) -> None:
        path, data = arguments.rest[:2]
        stat = self.connect().set(path, data.encode(), version=arguments.version())
        if arguments.has("s"):
            _print_stat(stat)

    def create(self, arguments: Arguments) -> None:
        path, data = [*arguments.rest, ""][:2]
        made = self.connect().create(path, data.encode(), ephemeral=arguments.has("e"), sequence=arguments.has("s"))
        sys.stdout.flush()
        print(f"Created {made}", file=sys.stderr)

    def delete(self, arguments: Arguments) -> None:
        self.connect().delete(arguments.rest[0], version=arguments.version())

    def deleteall(self, arguments: Arguments) -> None:
        client = self.connect()
        for each in reversed(_subtree(client, arguments.rest[0])):
            client.delete(each)

    def get_acl(self, arguments: Arguments) -> None:
        acls, stat = self.connect().get_acls(arguments.rest[0])
        for acl in acls:
            letters = ("READ", "r"), ("WRITE", "w"), ("CREATE", "c"), ("DELETE", "d"), ("ADMIN", "a")
            granted = {letter for name, letter in letters if name in acl.acl_list or "ALL" in acl.acl_list}
            print(f"'{acl.id.scheme},'{acl.id.id}\n: {''.join(each for each in 'cdrwa' if each in granted)}")
        if arguments.has("s"):
            _print_stat(stat)

    def count(self, arguments: Arguments) -> None:
        print(len(_subtree(self.connect(), arguments.rest[0])) - 1)

    def ephemerals(self, arguments: Arguments) -> None:
        client, prefix = self.connect(), [*arguments.rest, "/"][0]
        session = client.client_id[0]
        own = [each for each in _subtree(client, prefix) if _owner(client, each) == session]
        print(f"[{', '.join(own)}]")

    def sync(self, arguments: Arguments) -> None:
        self.connect().sync(arguments.rest[0])
        print("Sync is OK")

    def version(self, arguments: Arguments) -> None:
        from kafkalite import __version__

        print(f"ZooKeeper CLI version: kafkalite {__version__}")

    def quit(self, arguments: Arguments) -> None:
        print(_CLOSED)


@dataclass(frozen=True, slots=True)
class _Command:
    usage: str
    action: Callable[[Shell, Arguments], None]
    flags: str = ""
    valued: str = ""
    operands: int = 1
    has_path: bool = True

    def read(self, words: Sequence[str]) -> Arguments:
        options: dict[str, str] = {}
        left = list(words)
        rest = []
        while left:
            word = left.pop(0)
            if len(word) != 2 or word[0] != "-":
                rest.append(word)
            elif word[1] in self.flags:
                options[word[1]] = ""
            elif word[1] in self.valued and left:
                options[word[1]] = left.pop(0)
            else:
                raise Misuse(f"org.apache.commons.cli.UnrecognizedOptionException: Unrecognized option: {word}")
        if len(rest) < self.operands:
            raise Misuse(self.usage)
        if self.has_path and rest:
            _check_path(rest[0])
        return Arguments(options, rest)


_COMMANDS: Final = {
    "ls": _Command("ls [-s] [-w] [-R] path", Shell.ls, "swR"),
    "get": _Command("get [-s] [-w] path", Shell.get, "sw"),
    "stat": _Command("stat [-w] path", Shell.stat, "w"),
    "set": _Command("set [-s] [-v version] path data", Shell.set, "s", "v", operands=2),
    "create": _Command("create [-s] [-e] [-c] [-t ttl] path [data] [acl]", Shell.create, "se"),
    "delete": _Command("delete [-v version] path", Shell.delete, "", "v"),
    "deleteall": _Command("deleteall path [-b batch size]", Shell.deleteall, "", "b"),
    "getAcl": _Command("getAcl [-s] path", Shell.get_acl, "s"),
    "getAllChildrenNumber": _Command("getAllChildrenNumber path", Shell.count),
    "getEphemerals": _Command("getEphemerals path", Shell.ephemerals, operands=0),
    "sync": _Command("sync path", Shell.sync),
    "version": _Command("version ", Shell.version, operands=0, has_path=False),
    "quit": _Command("quit ", Shell.quit, operands=0, has_path=False),
}


def _check_path(path: str) -> None:
    if not path.startswith("/"):
        raise Misuse("Path must start with / character")
    if len(path) > 1 and path.endswith("/"):
        raise Misuse("Path must not end with / character")


def _explanation(problem: Exception, path: str) -> str | None:
    """Return the message of ZooKeeper's shell for an error of the ensemble, None for other errors."""
    from kazoo import exceptions

    if isinstance(problem, exceptions.NoNodeError):
        return f"Node does not exist: {path}"
    if isinstance(problem, exceptions.NodeExistsError):
        return f"Node already exists: {path}"
    if isinstance(problem, exceptions.NotEmptyError):
        return f"Node not empty: {path}"
    if isinstance(problem, exceptions.BadVersionError):
        return f"version No is not valid : {path}"
    if isinstance(problem, exceptions.NoChildrenForEphemeralsError):
        return f"Ephemerals cannot have children: {path}"
    if isinstance(problem, exceptions.NoAuthError):
        return f"Insufficient permission : {path}"
    return f"KeeperErrorCode = {type(problem).__name__}" if isinstance(problem, exceptions.ZookeeperError) else None


def _complain(message: str, status: int = 1) -> int:
    sys.stdout.flush()
    print(message, file=sys.stderr)
    return status


def _subtree(client: KazooClient, path: str) -> list[str]:
    """Return the path and all below it, parents before their children."""
    found = [path]
    for child in sorted(client.get_children(path)):
        found += _subtree(client, f"{path.rstrip('/')}/{child}")
    return found


def _owner(client: KazooClient, path: str) -> int:
    stat = client.exists(path)
    return 0 if stat is None else int(stat.ephemeralOwner)


def _print_data(data: bytes | None) -> None:
    """Print the data of a znode; None stands for a znode that was created without data."""
    sys.stdout.flush()
    sys.stdout.buffer.write((b"null" if data is None else data) + b"\n")


def _print_stat(stat: Any) -> None:
    for name, value in (
        ("cZxid", f"0x{stat.czxid:x}"),
        ("ctime", java_date_text(stat.ctime)),
        ("mZxid", f"0x{stat.mzxid:x}"),
        ("mtime", java_date_text(stat.mtime)),
        ("pZxid", f"0x{stat.pzxid:x}"),
        ("cversion", stat.cversion),
        ("dataVersion", stat.version),
        ("aclVersion", stat.aversion),
        ("ephemeralOwner", f"0x{stat.ephemeralOwner or 0:x}"),
        ("dataLength", stat.dataLength),
        ("numChildren", stat.numChildren),
    ):
        print(f"{name} = {value}")
