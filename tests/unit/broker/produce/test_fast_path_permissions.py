"""Requests that repeat each other are served together for those who may write, have no quota, and whose session lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from kafkalite.broker.identity.authorizer import Operation, Permission, ResourceType
from kafkalite.broker.settings.quotas import QuotaEntity
from kafkalite.errors import ErrorCode
from kafkalite.security.principal import KafkaPrincipal
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.produce.fast_path_broker import Broker, Peer, produce

ALICE = KafkaPrincipal("User", "alice")
BOB = KafkaPrincipal("User", "bob")
SESSION_MS = 1000


class Judge:
    """Lets everybody in `writers` write, and notes what it was asked."""

    def __init__(self) -> None:
        self.generation = 0
        self.writers = {ALICE}
        self.asked: list[tuple[str, str, Permission, str]] = []

    def allows(self, principal: KafkaPrincipal, host: str, permission: Permission, name: str) -> bool:
        self.asked.append((str(principal), host, permission, name))
        return principal in self.writers

    def allows_some(self, principal: KafkaPrincipal, host: str, permission: Permission) -> bool:
        return principal in self.writers

    def forbid(self, principal: KafkaPrincipal) -> None:
        self.writers.discard(principal)
        self.generation += 1


def run(path: Path, act: Callable[[Broker, Judge], Coroutine[Any, Any, None]]) -> None:
    async def scenario() -> None:
        judge = Judge()
        await act(Broker(path, authorizer=judge), judge)

    virtual_time.run(scenario())


async def alices(broker: Broker, lifetime_ms: int | None = None) -> Peer:
    """A connection of hers that has sent a request like those that follow."""
    return await connected(broker, ALICE, lifetime_ms)


async def connected(broker: Broker, principal: KafkaPrincipal, lifetime_ms: int | None = None) -> Peer:
    peer = Peer(broker)
    peer.connection.complete_authentication(principal, broker.dispatcher, lifetime_ms)
    await read_codes(peer)
    broker.served.clear()
    return peer


async def read_codes(peer: Peer) -> list[ErrorCode]:
    """What one more request is answered."""
    peer.send(produce())
    await virtual_time.settle()
    return [each[1] for each in peer.list_outcomes()]


def test_who_may_write_is_asked_about_once_until_an_acl_changes(tmp_path: Path) -> None:
    async def act(broker: Broker, judge: Judge) -> None:
        peer = await alices(broker)
        judge.asked.clear()
        for _ in range(3):
            assert await read_codes(peer) == [ErrorCode.NONE]
        assert not broker.served
        host = peer.connection.peer_host
        assert judge.asked == [("User:alice", host, Permission(Operation.WRITE, ResourceType.TOPIC), "t")]

        judge.generation += 1
        assert await read_codes(peer) == [ErrorCode.NONE]
        assert not broker.served and len(judge.asked) == 2

    run(tmp_path, act)


def test_who_may_write_no_more_is_refused_as_any_other(tmp_path: Path) -> None:
    async def act(broker: Broker, judge: Judge) -> None:
        peer = await alices(broker)
        assert await read_codes(peer) == [ErrorCode.NONE]
        judge.forbid(ALICE)
        for served in ([5], [5, 5]):
            assert await read_codes(peer) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
            assert broker.served == served
        assert broker.logs[0].log_end_offset == 2

    run(tmp_path, act)


def test_what_one_may_another_may_not_who_sends_the_same(tmp_path: Path) -> None:
    """Connections of one principal share what is known of their requests; those of different ones do not."""

    async def act(broker: Broker, judge: Judge) -> None:
        judge.writers.add(BOB)
        bobs = await connected(broker, BOB)
        assert await read_codes(bobs) == [ErrorCode.NONE] and not broker.served
        judge.forbid(BOB)
        for peer in (await alices(broker), await alices(broker)):
            judge.asked.clear()
            assert await read_codes(peer) == [ErrorCode.NONE] and not broker.served
            assert len(judge.asked) <= 1, "once for both"
        assert await read_codes(bobs) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]

    run(tmp_path, act)


def test_the_quotas_of_others_do_not_matter(tmp_path: Path) -> None:
    async def act(broker: Broker, judge: Judge) -> None:
        peer = await alices(broker)
        broker.parts.quotas.take(QuotaEntity(user="bob"), {"producer_byte_rate": 1.0})
        broker.parts.quotas.take(QuotaEntity(client_id="other"), {"producer_byte_rate": 1.0})
        assert await read_codes(peer) == [ErrorCode.NONE]
        assert not broker.served and peer.transport.reading
        broker.parts.quotas.take(QuotaEntity(user="alice"), {"producer_byte_rate": 1.0})
        assert await read_codes(peer) == [ErrorCode.NONE]
        assert broker.served == [5] and not peer.transport.reading

    run(tmp_path, act)


def test_a_session_that_is_over_is_over_for_requests_that_repeat_each_other(tmp_path: Path) -> None:
    """They went past what looks at its end, so a client that never authenticated again wrote on."""

    async def act(broker: Broker, judge: Judge) -> None:
        peer = await alices(broker, SESSION_MS)
        assert await read_codes(peer) == [ErrorCode.NONE]
        assert not broker.served
        await asyncio.sleep(SESSION_MS / 1000 + 0.01)
        await read_codes(peer)
        assert broker.served == [5], "whoever serves the session looks at it"

    run(tmp_path, act)
