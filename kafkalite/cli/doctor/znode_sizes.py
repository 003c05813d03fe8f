"""Finds how far znodes and lists of children are from `jute.maxbuffer` (`zk.size_limits`), for `kafkalite doctor`, and whether the servers
take requests of the size that brokers count on.

ZooKeeper tells nobody its limit, but a server closes a connection as soon as a longer request is announced. Only the announcement is sent,
so nothing is written.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.cli.doctor.findings import Finding, ok, problem, skip_check, warning
from zk import paths
from zk.security.store_security import PLAINTEXT, StoreSecurity
from zk.size_limits import SizeLimits, list_bytes, operation_bytes
from zk.store import NoNodeError, Write

if TYPE_CHECKING:
    from zk.store import Store

CHECK: Final = "znode sizes"
LIMIT_CHECK: Final = "jute.maxbuffer"
_WARNING_SHARE, _PROBLEM_SHARE = 0.5, 0.8
_REFUSED_AFTER_S: Final = 0.5
"""A server that refuses does it at once; one that says nothing for so long waits for the request."""
_LISTS: Final = (
    paths.TOPICS,
    paths.CONFIG_TOPICS,
    paths.CONFIG_USERS,
    paths.CONFIG_CLIENTS,
    paths.CONFIG_IPS,
    paths.CONFIG_CHANGES,
    paths.DELETE_TOPICS,
    paths.ISR_CHANGES,
    paths.LOG_DIR_EVENTS,
    paths.ACL_CHANGES,
    paths.ACL_EXTENDED_CHANGES,
    paths.DELEGATION_TOKENS,
    paths.CONSUMERS,
)
_PARENTS_OF_LISTS: Final = (paths.ACL, paths.ACL_PREFIXED)
"""Their children have the lists: one for each type of resource."""
_READ_TOGETHER: Final = 500
_REMEDY: Final = (
    "raise jute.maxbuffer of ZooKeeper's servers, then of Apache Kafka's brokers (KAFKA_OPTS), and set "
    "kafkalite.zookeeper.jute.maxbuffer to the same"
)


class Measured(NamedTuple):
    """The size of a znode, or of the list of its children, if `children` is their number."""

    path: str
    size_bytes: int
    children: int | None = None

    def share(self, limits: SizeLimits) -> float:
        return self.size_bytes / self._limit(limits)

    def describe(self, limits: SizeLimits) -> str:
        what = f"{self.path} has" if self.children is None else f"{self.path} lists {self.children} znodes in"
        return f"{what} {self.size_bytes} bytes, {self.share(limits):.1%} of {self._limit(limits)} (jute.maxbuffer)"

    def _limit(self, limits: SizeLimits) -> int:
        return limits.znode_bytes if self.children is None else limits.response_bytes


async def measure(store: Store, chroot: str = "") -> list[Measured]:
    """Read the sizes of all lists and znodes that grow with the cluster, without creating anything. Raises StoreError, OSError."""
    names: dict[str, list[str]] = {}
    for path in _LISTS:
        names[path] = await _list_children(store, chroot + path)
    for parent in _PARENTS_OF_LISTS:
        for kind in await _list_children(store, chroot + parent):
            names[paths.child(parent, kind)] = await _list_children(store, chroot + paths.child(parent, kind))
    znodes = [paths.REASSIGN_PARTITIONS]
    for parent in (paths.TOPICS, *(each for each in names if each not in _LISTS)):
        znodes += [paths.child(parent, name) for name in names[parent]]
    measured = [Measured(path, list_bytes(found), len(found)) for path, found in names.items()]
    for at in range(0, len(znodes), _READ_TOGETHER):
        some = znodes[at : at + _READ_TOGETHER]
        found = await store.read_many([chroot + path for path in some])
        measured += [
            Measured(path, operation_bytes(Write(chroot + path, znode[0])))
            for path, znode in zip(some, found, strict=True)
            if znode is not None
        ]
    return measured


async def _list_children(store: Store, path: str) -> list[str]:
    try:
        return await store.children(path)
    except NoNodeError:
        return []


def judge(measured: Sequence[Measured], limits: SizeLimits) -> Iterator[Finding]:
    """Return a finding for each list or znode above half of its limit, and else one with the largest of both. Pure."""
    near = sorted((each for each in measured if each.share(limits) >= _WARNING_SHARE), key=_size, reverse=True)
    for each in near:
        found = each.describe(limits)
        if each.share(limits) >= _PROBLEM_SHARE:
            yield problem(CHECK, found, _first_remedy(each) + _REMEDY)
        else:
            yield warning(CHECK, found, _first_remedy(each) + _REMEDY)
    if not near:
        lists = [each for each in measured if each.children is not None]
        znodes = [each for each in measured if each.children is None]
        largest = [max(some, key=_size) for some in (lists, znodes) if some]
        yield ok(CHECK, "largest: " + "; ".join(each.describe(limits) for each in largest))


def _size(measured: Measured) -> int:
    return measured.size_bytes


def _first_remedy(measured: Measured) -> str:
    if measured.path in (paths.TOPICS, paths.CONFIG_TOPICS):
        return "delete topics, or "
    return "move fewer partitions at a time, or " if paths.parent(measured.path) == paths.TOPICS else ""


async def check_servers(connect: str, limits: SizeLimits, security: StoreSecurity = PLAINTEXT) -> list[Finding]:
    """Return what the servers take of the requests that brokers count on. Raises ValueError for a connect string without servers."""
    from zk.connect_string import split_connect

    addresses = split_connect(connect)[0].split(",")
    taken = await asyncio.gather(*[takes_request(each, limits.request_bytes, security) for each in addresses])
    return list(judge_servers(dict(zip(addresses, taken, strict=True)), limits))


async def takes_request(address: str, size_bytes: int, security: StoreSecurity = PLAINTEXT) -> bool | None:
    """True if a server waits for a request of this size, which is announced and not sent; None when it cannot be asked."""
    host, colon, port = address.rpartition(":")
    try:
        async with asyncio.timeout(2 * _REFUSED_AFTER_S):
            context = security.context() if security.context is not None else None
            reader, writer = await asyncio.open_connection(
                (host if colon else address).strip("[]"), int(port) if colon else 2181, ssl=context
            )
    except (OSError, ValueError):
        return None
    try:
        writer.write(struct.pack(">i", size_bytes))
        async with asyncio.timeout(_REFUSED_AFTER_S):
            await reader.read(1)
    except TimeoutError:
        return True
    except OSError:
        return False
    finally:
        writer.transport.abort()
    return False


def judge_servers(taken: dict[str, bool | None], limits: SizeLimits) -> Iterator[Finding]:
    """Return a problem for servers that take less than brokers count on, else one finding. Pure."""
    size_bytes = limits.request_bytes
    if refusing := [address for address, takes in taken.items() if takes is False]:
        remedy = f"-Djute.maxbuffer={size_bytes} for them (SERVER_JVMFLAGS), or set kafkalite.zookeeper.jute.maxbuffer to theirs"
        yield problem(
            LIMIT_CHECK,
            f"{', '.join(refusing)}: requests of {size_bytes} bytes, which brokers send, are refused",
            remedy,
        )
    elif any(taken.values()):
        yield ok(LIMIT_CHECK, f"servers take requests of {size_bytes} bytes, as brokers count on")
    else:
        yield skip_check(LIMIT_CHECK, "no server can be asked")
