"""Delegation tokens: their life in ZooKeeper, who may do what with them, and that who has one is let in."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkalite.broker.handlers import delegation_tokens as handlers
from kafkalite.broker.identity.authorizer import ALLOW_ALL, Authorizer
from kafkalite.broker.identity.delegation_tokens import DelegationTokens
from kafkalite.config.broker import BrokerConfig, LiveConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.security.principal import KafkaPrincipal
from kafkalite.security.scram import ScramMechanism, credential_of, salted_password
from tests.unit.broker.memory_parts import context_of
from tests.unit.clocks import HandClock
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.znodes import DelegationToken, MalformedZnodeError

ALICE, BOB, EVE = (KafkaPrincipal("User", name) for name in ("alice", "bob", "eve"))
KEY = {"zookeeper.connect": "any", "delegation.token.secret.key": "k"}
DAY_MS = 86_400_000
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


class Nobody:
    """Allows nothing."""

    def allows(self, *question: object) -> bool:
        return False


class Broker:
    """The tokens of one broker, with a clock that is set."""

    def __init__(self, store: MemoryStore, settings: dict[str, str] = KEY) -> None:
        self.store, self.clock = store, HandClock(1_000_000)
        live = LiveConfig(BrokerConfig.from_properties(settings))
        self.delegation_tokens = DelegationTokens(store, live, self.clock)

    async def create(self, principal: KafkaPrincipal, authorizer: Any = ALLOW_ALL, **asked: Any) -> Any:
        request = messages.create_delegation_token_request.CreateDelegationTokenRequest(**asked)
        return await handlers.create_delegation_token(self, request, asked_by(principal, authorizer))

    async def renew(self, principal: KafkaPrincipal, secret: bytes, period_ms: int = -1) -> Any:
        request = messages.renew_delegation_token_request.RenewDelegationTokenRequest(
            hmac=secret, renew_period_ms=period_ms
        )
        return await handlers.renew_delegation_token(self, request, asked_by(principal))

    async def expire(self, principal: KafkaPrincipal, secret: bytes, period_ms: int = -1) -> Any:
        request = messages.expire_delegation_token_request.ExpireDelegationTokenRequest(
            hmac=secret, expiry_time_period_ms=period_ms
        )
        return await handlers.expire_delegation_token(self, request, asked_by(principal))

    def describe(self, principal: KafkaPrincipal, owners: Any = None, authorizer: Any = None) -> list[str]:
        request = messages.describe_delegation_token_request.DescribeDelegationTokenRequest(owners=owners)
        reply = handlers.describe_delegation_token(self, request, asked_by(principal, authorizer or Nobody()))
        return [each.token_id for each in reply.tokens]


def asked_by(principal: KafkaPrincipal, authorizer: Authorizer = ALLOW_ALL) -> Any:
    context = context_of(3, authorizer=authorizer)
    context.connection.principal = principal  # type: ignore[misc]
    return context


def with_broker(script: Callable[[Broker], Awaitable[None]], settings: dict[str, str] = KEY) -> None:
    async def scenario() -> None:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(1)
        await script(Broker(store, settings))

    asyncio.run(scenario())


def renewer(name: str, kind: str = "User") -> Any:
    return messages.create_delegation_token_request.CreatableRenewers(principal_type=kind, principal_name=name)


def test_a_token_is_written_as_apache_kafka_writes_it_without_its_secret() -> None:
    async def script(broker: Broker) -> None:
        made = await broker.create(ALICE, renewers=[renewer("bob")], max_lifetime_ms=2 * DAY_MS)
        assert (made.error_code, made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms) == (
            0,
            1_000_000,
            1_000_000 + DAY_MS,
            1_000_000 + 2 * DAY_MS,
        )
        data, _ = await broker.store.read(f"{paths.DELEGATION_TOKENS}/{made.token_id}")
        assert json.loads(data) == {
            "version": 3,
            "owner": "User%3Aalice",
            "tokenRequester": "User%3Aalice",
            "renewers": ["User%3Abob"],
            "issueTimestamp": 1_000_000,
            "maxTimestamp": 1_000_000 + 2 * DAY_MS,
            "expiryTimestamp": 1_000_000 + DAY_MS,
            "tokenId": made.token_id,
        }
        assert made.hmac not in data and len(made.hmac) == 64
        (notice,) = await broker.store.children(paths.DELEGATION_TOKEN_CHANGES)
        told, _ = await broker.store.read(f"{paths.DELEGATION_TOKEN_CHANGES}/{notice}")
        assert told.decode() == made.token_id
        await Broker(broker.store).delegation_tokens.load()

    with_broker(script)


NAMES = {
    "alice": "User%3Aalice",
    "a b": "User%3Aa%20b",
    "50%": "User%3A50%25",
    "a/b:c=d,e": "User%3Aa%2Fb%3Ac%3Dd%2Ce",
    "st*r+p~": "User%3Ast%2Ar%2Bp%7E",
    "ünï": "User%3A%C3%BCn%C3%AF",
    "CN=Bob Smith,OU=R&D,O=A/B": "User%3ACN%3DBob%20Smith%2COU%3DR%26D%2CO%3DA%2FB",
    "%41": "User%3A%2541",
    "": "User%3A",
}
"""As Apache Kafka 3.9.1 wrote them."""


@pytest.mark.parametrize(("name", "text"), NAMES.items())
def test_principals_are_sanitized_in_the_znode(name: str, text: str) -> None:
    token = DelegationToken(f"User:{name}", "User:alice", (f"User:{name}", "User:bob"), 1, 2, 2, "x")
    written = json.loads(token.encode())
    assert (written["owner"], written["renewers"]) == (text, [text, "User%3Abob"])
    assert DelegationToken.decode(token.encode()) == token


@pytest.mark.parametrize("name", NAMES)
def test_a_token_that_was_written_plain_is_read_and_sanitized_when_it_is_renewed(name: str) -> None:
    """As earlier versions wrote them, so that Apache Kafka did not read them, nor they those of Apache Kafka."""

    async def script(broker: Broker) -> None:
        plain = f"User:{name}"
        made = await broker.create(ALICE)
        path = f"{paths.DELEGATION_TOKENS}/{made.token_id}"
        data, _ = await broker.store.read(path)
        fields = json.loads(data) | {"owner": plain, "tokenRequester": plain, "renewers": ["User:bob", plain]}
        await broker.store.write(path, json.dumps(fields).encode())
        other = Broker(broker.store)
        await other.delegation_tokens.load()
        found = other.delegation_tokens.credential(ScramMechanism.SCRAM_SHA_256, made.token_id)
        assert found is not None and found.owner == KafkaPrincipal("User", name)
        assert (await other.renew(BOB, made.hmac)).error_code == 0
        written = json.loads((await broker.store.read(path))[0])
        assert (written["owner"], written["renewers"]) == (NAMES[name], ["User%3Abob", NAMES[name]])

    with_broker(script)


def test_an_expired_token_is_removed_by_a_negative_period() -> None:
    async def script(broker: Broker) -> None:
        for lifetime_ms, period_ms in ((2 * DAY_MS, 5), (5, None)):  # by its expiry, by its longest life
            made = await broker.create(ALICE, renewers=[renewer("bob")], max_lifetime_ms=lifetime_ms)
            if period_ms is not None:
                await broker.expire(ALICE, made.hmac, period_ms)
            broker.clock.ms += 6
            assert (await broker.renew(ALICE, made.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
            assert (await broker.expire(ALICE, made.hmac, 0)).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
            for period in (0, -1):
                stranger = await broker.expire(EVE, made.hmac, period)
                assert stranger.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
            removed = await broker.expire(BOB, made.hmac, -1)
            assert (removed.error_code, removed.expiry_timestamp_ms) == (0, broker.clock.ms)
            assert await broker.store.children(paths.DELEGATION_TOKENS) == []
            assert (await broker.expire(BOB, made.hmac, -1)).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND

    with_broker(script)


def test_who_asked_for_a_token_of_another_sees_it_and_may_neither_renew_nor_end_it() -> None:
    async def script(broker: Broker) -> None:
        made = await broker.create(EVE, owner_principal_type="User", owner_principal_name="alice")
        assert broker.describe(EVE) == broker.describe(ALICE) == [made.token_id]
        for refused in (await broker.renew(EVE, made.hmac), await broker.expire(EVE, made.hmac)):
            assert refused.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert (await broker.renew(ALICE, made.hmac)).error_code == 0

    with_broker(script)


def test_a_description_of_owners_names_what_they_have_to_do_with() -> None:
    """Kafka's filter takes owners, requesters and renewers."""

    async def script(broker: Broker) -> None:
        made = await broker.create(
            EVE, owner_principal_type="User", owner_principal_name="alice", renewers=[renewer("bob")]
        )
        owner = messages.describe_delegation_token_request.DescribeDelegationTokenOwner
        for name, expected in {"alice": True, "bob": True, "eve": True, "carol": False}.items():
            found = broker.describe(ALICE, [owner(principal_type="User", principal_name=name)])
            assert found == ([made.token_id] if expected else []), name
        assert broker.describe(ALICE, [owner(principal_type="Group", principal_name="alice")]) == []

    with_broker(script)


def test_a_renewer_without_a_name_made_every_description_fail() -> None:
    async def script(broker: Broker) -> None:
        made = await broker.create(ALICE, renewers=[renewer("")])
        request = messages.describe_delegation_token_request.DescribeDelegationTokenRequest(owners=None)
        (shown,) = handlers.describe_delegation_token(broker, request, asked_by(ALICE)).tokens
        (named,) = shown.renewers
        assert (shown.token_id, named.principal_type, named.principal_name) == (made.token_id, "User", "")

    with_broker(script)


def test_who_has_a_token_is_known_by_another_broker_until_it_expires() -> None:
    async def script(broker: Broker) -> None:
        made = await broker.create(ALICE)
        other = Broker(broker.store)
        await other.delegation_tokens.load()
        for mechanism in ScramMechanism:
            found = other.delegation_tokens.credential(mechanism, made.token_id)
            assert found is not None and (found.owner, found.expires_ms) == (ALICE, made.expiry_timestamp_ms)
            held, password = found.credential, b64encode(made.hmac).decode()
            salted = salted_password(mechanism, password, held.salt, held.iterations)
            assert credential_of(mechanism, salted, held.salt, held.iterations) == held
        other.clock.ms += 2 * DAY_MS
        assert other.delegation_tokens.credential(ScramMechanism.SCRAM_SHA_256, made.token_id) is None
        await other.delegation_tokens.remove_expired()
        assert await broker.store.children(paths.DELEGATION_TOKENS) == []
        await broker.delegation_tokens.load()
        assert broker.delegation_tokens.credential(ScramMechanism.SCRAM_SHA_256, made.token_id) is None

    with_broker(script)


def test_owners_and_renewers_renew_and_end_a_token_and_nobody_else() -> None:
    async def script(broker: Broker) -> None:
        made = await broker.create(ALICE, renewers=[renewer("bob")], max_lifetime_ms=2 * DAY_MS)
        broker.clock.ms += 1000
        assert (await broker.renew(BOB, made.hmac)).expiry_timestamp_ms == broker.clock.ms + DAY_MS
        assert (await broker.renew(ALICE, made.hmac, 9 * DAY_MS)).expiry_timestamp_ms == made.max_timestamp_ms
        for refused, code in (
            (await broker.renew(EVE, made.hmac), ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
            (await broker.expire(EVE, made.hmac), ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
            (await broker.renew(ALICE, b"other"), ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
        ):
            assert (refused.error_code, refused.expiry_timestamp_ms) == (code, -1)
        assert (await broker.expire(BOB, made.hmac, 5)).expiry_timestamp_ms == broker.clock.ms + 5
        broker.clock.ms += 6
        assert (await broker.renew(ALICE, made.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
        other = await broker.create(ALICE)
        assert (await broker.expire(ALICE, other.hmac)).expiry_timestamp_ms == broker.clock.ms
        assert (await broker.renew(ALICE, other.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND

    with_broker(script)


def test_tokens_are_shown_to_those_concerned_and_to_those_who_may_see_them() -> None:
    async def script(broker: Broker) -> None:
        one = (await broker.create(ALICE, renewers=[renewer("bob")])).token_id
        two = (await broker.create(EVE)).token_id
        owner = messages.describe_delegation_token_request.DescribeDelegationTokenOwner
        assert broker.describe(BOB) == broker.describe(ALICE) == [one]
        assert broker.describe(EVE) == [two]
        assert broker.describe(EVE, [owner(principal_type="User", principal_name="alice")]) == []
        assert broker.describe(EVE, [], ALLOW_ALL) == []
        assert broker.describe(EVE, None, ALLOW_ALL) == [one, two]

    with_broker(script)


def test_tokens_are_read_in_the_order_of_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set gave the order, another one in each process."""

    async def script(broker: Broker) -> None:
        made = {(await broker.create(ALICE)).token_id for _ in range(10)}
        asked: list[str] = []
        read = broker.store.read

        async def note_and_read(path: str) -> Any:
            asked.append(path.rpartition("/")[2])
            return await read(path)

        monkeypatch.setattr(broker.store, "read", note_and_read)
        await broker.delegation_tokens.load()
        assert asked == sorted(made)

    with_broker(script)


def test_who_may_not_ask_for_a_token_is_refused() -> None:
    async def script(broker: Broker) -> None:
        by_token = KafkaPrincipal("User", "alice", by_token=True)
        for_bob = {"owner_principal_type": "User", "owner_principal_name": "bob"}
        assert (await broker.create(by_token)).error_code == NOT_ALLOWED
        assert (await broker.renew(by_token, b"")).error_code == NOT_ALLOWED
        with pytest.raises(KafkaError) as refused:
            broker.describe(by_token)
        assert refused.value.code == NOT_ALLOWED
        denied = await broker.create(ALICE, Nobody(), **for_bob)
        assert denied.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        granted = await broker.create(ALICE, ALLOW_ALL, **for_bob)
        assert (granted.error_code, granted.principal_name, granted.token_requester_principal_name) == (
            0,
            "bob",
            "alice",
        )
        group = await broker.create(ALICE, renewers=[renewer("bob", "Group")])
        assert group.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE

    async def without_a_key(broker: Broker) -> None:
        assert (await broker.create(ALICE)).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        assert (await broker.renew(ALICE, b"")).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        with pytest.raises(KafkaError) as refused:
            broker.describe(ALICE)
        assert refused.value.code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

    with_broker(script)
    with_broker(without_a_key, {"zookeeper.connect": "any"})


def test_older_znodes_are_read_and_broken_ones_do_not_count() -> None:
    old = {"version": 1, "owner": "User:a", "renewers": [], "issueTimestamp": 1, "maxTimestamp": 2, "tokenId": "x"}
    read = DelegationToken.decode(json.dumps(old | {"expiryTimestamp": 2}).encode())
    assert read.requester == "User:a"
    assert DelegationToken.decode(read.encode()) == read
    no_principal = old | {"expiryTimestamp": 2, "owner": "alice"}
    for broken in (b"", b"{}", json.dumps(old).encode(), json.dumps(no_principal).encode()):
        with pytest.raises(MalformedZnodeError):
            DelegationToken.decode(broken)
