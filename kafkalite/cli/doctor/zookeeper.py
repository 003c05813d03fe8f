"""The checks of `kafkalite doctor` on ZooKeeper: the state of each server, the quorum, and the brokers' clocks.

The four-letter words are ZooKeeper's own: `srvr` is allowed by default, `ruok` only when `4lw.commands.whitelist` says so, hence its
refusal is no finding.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.cli.doctor.findings import Finding, ok, problem, skip_check, warning
from kafkalite.cli.doctor.zookeeper_exposure import AskWord, check_server, judge
from kafkalite.cli.doctor.zookeeper_versions import WITHOUT_KNOWN, open_to
from zk.security.store_security import PLAINTEXT, StoreSecurity

if TYPE_CHECKING:
    from zk.store import Store

_LONGEST_ANSWER_BYTES: Final = 64 * 1024
_SLOW_MS: Final = 100
_AHEAD_MS: Final = 1000
_BEHIND_MS: Final = 30_000
"""A broker that waits for its predecessor's session registers later than it says, so only a clock that is far behind shows."""
_REGISTERED_VERSION: Final = 1
_SERVER_REMEDY: Final = "start it, or take it out of zookeeper.connect; its log says why it is down"


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """The answer of one server. `problem` says why there is none; `mode` is None when the server does not serve or does not say."""

    address: str
    problem: str | None = None
    mode: str | None = None
    version: str | None = None
    latency_ms: float | None = None
    serving: bool = False


class BrokerClock(NamedTuple):
    """The time of a broker's registration by its own clock and by ZooKeeper's."""

    broker: int
    own_ms: int
    zookeeper_ms: int


async def ask_servers(connect: str, timeout_s: float, security: StoreSecurity = PLAINTEXT) -> list[ServerAnswer]:
    """Ask every server of a connect string at once. ValueError when it names none."""
    from zk.connect_string import split_connect

    addresses = split_connect(connect)[0].split(",")
    return await asyncio.gather(*[_ask_server(each, timeout_s, security) for each in addresses])


async def check_exposure(connect: str, timeout_s: float, security: StoreSecurity = PLAINTEXT) -> list[Finding]:
    """Return what the servers of a connect string reveal to unauthenticated clients. Raises ValueError when it names none."""
    from zk.connect_string import split_connect

    def asker(address: str) -> AskWord:
        return lambda word: four_letter_word(address, word, timeout_s, security)

    addresses = split_connect(connect)[0].split(",")
    return list(judge(await asyncio.gather(*[check_server(each, asker(each)) for each in addresses])))


async def _ask_server(address: str, timeout_s: float, security: StoreSecurity) -> ServerAnswer:
    try:
        text = await four_letter_word(address, "srvr", timeout_s, security)
        if "not in the whitelist" in text:
            healthy = await four_letter_word(address, "ruok", timeout_s, security)
            return ServerAnswer(address, serving=healthy == "imok" or "not in the whitelist" in healthy)
    except (OSError, ValueError) as failed:
        refused = os.strerror(failed.errno) if isinstance(failed, OSError) and failed.errno else str(failed)
        why = f"no answer within {timeout_s:g} s" if isinstance(failed, TimeoutError) else refused
        return ServerAnswer(address, problem=why)
    return parse_srvr(address, text)


async def four_letter_word(address: str, word: str, timeout_s: float, security: StoreSecurity = PLAINTEXT) -> str:
    """Return a server's answer to a four-letter word. Raises OSError (also TimeoutError), and ValueError for an address without a port."""
    host, colon, port = address.rpartition(":")
    if not colon:
        host, port = address, "2181"
    async with asyncio.timeout(timeout_s):
        context = security.context() if security.context is not None else None
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=context)
        try:
            writer.write(word.encode())
            answer = b""
            while len(answer) < _LONGEST_ANSWER_BYTES and (part := await reader.read(4096)):
                answer += part
            return answer.decode(errors="replace").strip()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def parse_srvr(address: str, text: str) -> ServerAnswer:
    """Return the parsed answer to `srvr`. A server without a quorum answers that it is not serving requests."""
    mode = re.search(r"^Mode: (\w+)", text, re.MULTILINE)
    version = re.search(r"^Zookeeper version: ([^,\s]+)", text, re.MULTILINE)
    latency = re.search(r"^Latency min/avg/max: [\d.]+/([\d.]+)/[\d.]+", text, re.MULTILINE)
    return ServerAnswer(
        address,
        None if mode or "not currently serving" in text else f"it does not answer like ZooKeeper: {text[:60]!r}",
        mode[1] if mode else None,
        version[1].partition("-")[0] if version else None,
        float(latency[1]) if latency else None,
        serving=mode is not None,
    )


def judge_servers(answers: Sequence[ServerAnswer]) -> Iterator[Finding]:
    """Return a finding for each server with a problem, and one for the ensemble."""
    for each in answers:
        if each.problem is not None:
            yield problem("zookeeper server", f"{each.address}: {each.problem}", _SERVER_REMEDY)
        elif not each.serving:
            remedy = "start the other servers: it waits for a majority of its ensemble"
            yield problem("zookeeper server", f"{each.address}: it runs and serves nobody", remedy)
        elif each.latency_ms is not None and each.latency_ms > _SLOW_MS:
            remedy = "give its transaction log (dataLogDir) a disk of its own"
            yield warning("zookeeper server", f"{each.address}: {each.latency_ms:g} ms a request on average", remedy)
    for version in sorted({each.version for each in answers if each.version}):
        yield _judge_version(version)
    yield _judge_quorum(answers)


def _judge_version(version: str) -> Finding:
    check, names = "zookeeper version", open_to(version)
    if names:
        return warning(
            check, f"{version} is open to {', '.join(names)}", f"run {WITHOUT_KNOWN}, or keep strangers away"
        )
    return ok(check, version)


def _judge_quorum(answers: Sequence[ServerAnswer]) -> Finding:
    check, total = "zookeeper quorum", len(answers)
    serving = [each for each in answers if each.serving]
    named = ", ".join(each.address + (f" ({each.mode})" if each.mode else "") for each in serving)
    if not serving:
        remedy = "brokers cannot elect leaders, nor start, until a majority of the servers runs: start them"
        return problem(check, "no server serves", remedy)
    leaders = sum(each.mode in ("leader", "standalone") for each in serving)
    if leaders > 1:
        remedy = "the servers of zookeeper.connect do not belong to one ensemble: name those of one"
        return problem(check, f"{leaders} servers lead: {named}", remedy)
    if len(serving) <= total // 2:
        remedy = "the ensemble is larger than the rest, or it will not survive: start the missing servers"
        return problem(check, f"{len(serving)} of {total} servers serve: {named}", remedy)
    versions = ", ".join(sorted({each.version for each in serving if each.version}))
    found = f"{len(serving)} of {total} servers serve: {named}" + (f", version {versions}" if versions else "")
    if total % 2 == 0:
        return warning(check, found, f"{total} servers survive no more failures than {total - 1}: use an odd number")
    return ok(check, found)


@asynccontextmanager
async def open_store(connect: str, timeout_s: float, security: StoreSecurity) -> AsyncIterator[tuple[Store, str]]:
    """Yield a store without a chroot, because a store creates its chroot, and the chroot to put before paths.

    Raises OSError, TimeoutError, StoreError, and ValueError for an invalid connect string.
    """
    from zk.connect_string import split_connect
    from zk.kazoo_adapter.kazoo_store import KazooStore

    servers, chroot = split_connect(connect)
    store = KazooStore(servers, security=security)
    try:
        await store.start(timeout_s)
        yield store, chroot
    finally:
        await store.close()


async def read_broker_clocks(connect: str, timeout_s: float, security: StoreSecurity = PLAINTEXT) -> list[BrokerClock]:
    """Read the registrations of all brokers, without creating anything. Raises OSError, TimeoutError, StoreError."""
    from zk import paths
    from zk.store import NoNodeError
    from zk.znodes import BrokerRegistration

    found = []
    async with open_store(connect, timeout_s, security) as (store, chroot):
        for name in await store.children(chroot + paths.BROKER_IDS):
            with suppress(NoNodeError):
                data, stat = await store.read(chroot + paths.broker(int(name)))
                own_ms = BrokerRegistration.decode(data).timestamp_ms
                if stat.version <= _REGISTERED_VERSION:  # later versions are changes, at other times
                    found.append(BrokerClock(int(name), own_ms, stat.ctime_ms))
    return found


def judge_broker_clocks(clocks: Sequence[BrokerClock]) -> Iterator[Finding]:
    """Return findings about brokers whose clock differed from ZooKeeper's when they registered."""
    check, remedy = "brokers' clocks", "set its clock, and run a time service such as chrony on it"
    off = 0
    for broker, own_ms, zookeeper_ms in clocks:
        ahead_ms = own_ms - zookeeper_ms
        if own_ms < 0 or -_BEHIND_MS <= ahead_ms <= _AHEAD_MS:
            continue
        off += 1
        where = "ahead of" if ahead_ms > 0 else "behind"
        yield problem(
            check, f"broker {broker} was {abs(ahead_ms) / 1000:.1f} s {where} ZooKeeper when it registered", remedy
        )
    if not clocks:
        yield skip_check(check, "no broker is registered")
    elif not off:
        yield ok(check, f"those of {len(clocks)} brokers agree with ZooKeeper's")
