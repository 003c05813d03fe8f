"""The network between brokers of one machine, disturbed by iptables and ss, in a network namespace of its own (root, on Linux).

Every broker runs with a group of its own (`watched_broker`), by which iptables tells whose packets they are; all have one address.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

_CLONE_NEWNET: Final = 0x40000000
_FIRST_GROUP: Final = 20_000
_TIMEOUT_S: Final = 60.0
_PORTS_OF_A_RULE: Final = 15

TCP_RESET: Final = ("REJECT", "--reject-with", "tcp-reset")
PORT_UNREACHABLE: Final = ("REJECT", "--reject-with", "icmp-port-unreachable")
DROP: Final = ("DROP",)


def group_of(broker_id: int) -> int:
    """Return the group whose packets are those of a broker."""
    return _FIRST_GROUP + broker_id


def enter_own_network() -> None:
    """Give this thread, and all that it starts, a network namespace with nothing but a loopback device. Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"no network namespace: {os.strerror(number)}")
    _run("ip", "link", "set", "lo", "up")


@contextmanager
def rule(source: int | None, *conditions: str, target: Sequence[str]) -> Iterator[None]:
    """Let iptables treat packets so while the block runs: those of the broker `source`, or of everybody, that fulfil the conditions."""
    owner = () if source is None else ("-m", "owner", "--gid-owner", str(group_of(source)))
    given = ("OUTPUT", "-p", "tcp", *owner, *conditions, "-j", *target)
    _run("iptables", "-w", "-I", *given)
    try:
        yield
    finally:
        _run("iptables", "-w", "-D", *given)


@contextmanager
def packets_lost(pid: int) -> Iterator[None]:
    """Lose all packets to and from the TCP ports that a process has now, as if its host were gone; it is stopped, and takes no others."""
    with _packets_of_ports_lost(_ports_of(pid)):
        yield


@contextmanager
def host_lost(source: int, pid: int) -> Iterator[None]:
    """Lose all packets of the broker `source`, also of connections that it opens meanwhile; it is killed before the block ends.

    Nothing that waited to be sent arrives afterwards. That the packets are the broker's would not be enough: those of connections that it
    closes, and of all when it is killed, are nobody's.
    """
    ports = _ports_of(pid)
    with rule(source, target=DROP), _packets_of_ports_lost(ports):
        yield
        _run("ss", "-K", "-tnH", " or ".join(f"sport = :{port}" for port in ports))


def _ports_of(pid: int) -> list[str]:
    listed = [line.split() for line in _run("ss", "-tnapH").splitlines() if f"pid={pid}," in line]
    return sorted({fields[3].rpartition(":")[2] for fields in listed})


@contextmanager
def _packets_of_ports_lost(ports: Sequence[str]) -> Iterator[None]:
    with ExitStack() as rules:
        for begin in range(0, len(ports), _PORTS_OF_A_RULE):
            some = ",".join(ports[begin : begin + _PORTS_OF_A_RULE])
            rules.enter_context(rule(None, "-m", "multiport", "--ports", some, target=DROP))
        yield


def local_ports(pid: int, port: int) -> list[int]:
    """Return the local ports of the established connections of a process to a port."""
    listed = _run("ss", "-tnpH", "state", "established", f"dport = :{port}")
    return [int(line.split()[2].rpartition(":")[2]) for line in listed.splitlines() if f"pid={pid}," in line]


def reset_servers_side(port: int, clients: Collection[int]) -> None:
    """Close the server's ends of the connections from these ports; the clients hear it by a reset, unless that is lost."""
    for client in clients:
        _run("ss", "-K", "-tnH", f"sport = :{port} and dport = :{client}")


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S).stdout


def has_tools() -> bool:
    """True if iptables and ss can do here what this module asks of them."""
    try:
        return (
            os.geteuid() == 0 and bool(re.search("iptables", _run("iptables", "--version"))) and bool(_run("ss", "-V"))
        )
    except (OSError, subprocess.SubprocessError):
        return False
