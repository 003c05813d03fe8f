"""SCRAM credentials over the protocol and in ZooKeeper: what is refused, where they are kept, and beside what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from kafkalite.broker.handlers.client_quotas import alter_client_quotas, describe_client_quotas
from kafkalite.broker.handlers.user_scram_credentials import (
    APIS,
    alter_user_scram_credentials,
    describe_user_scram_credentials,
)
from kafkalite.broker.identity.user_credentials import judge
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import in_one_go
from kafkalite.protocol import messages
from kafkalite.security.scram import ScramMechanism, credential_of
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.memory_parts import FakeController, MemoryParts, context_of
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.store import NoNodeError
from zk.top_level import create_top_level

SHA_256, SHA_512 = (int(each) for each in ScramMechanism)
TWICE = "A user credential cannot be altered twice in the same request"
ABSENT = "Attempt to delete a user credential that does not exist"
DONE = (0, "")


def upsertion(user: str, mechanism: int = SHA_256, iterations: int = 4096, salted: bytes = b"p" * 32) -> Any:
    return messages.alter_user_scram_credentials_request.ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
    )


def deletion(user: str, mechanism: int = SHA_256) -> Any:
    return messages.alter_user_scram_credentials_request.ScramCredentialDeletion(name=user, mechanism=mechanism)


def request_of(*items: Any) -> Any:
    m = messages.alter_user_scram_credentials_request
    return m.AlterUserScramCredentialsRequest(
        upsertions=[each for each in items if isinstance(each, m.ScramCredentialUpsertion)],
        deletions=[each for each in items if isinstance(each, m.ScramCredentialDeletion)],
    )


@pytest.mark.parametrize(
    ("items", "code", "said"),
    [
        ([upsertion("")], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        ([deletion("")], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        ([upsertion("u", iterations=4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        ([upsertion("u", SHA_512, iterations=16385)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        ([upsertion("u", 0, iterations=1)], ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        ([deletion("u", 3)], ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        ([upsertion("u", salted=b"")], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salted password must not be empty"),
        ([upsertion("u"), upsertion("u", iterations=5000)], ErrorCode.DUPLICATE_RESOURCE, TWICE),
        ([upsertion("u"), deletion("u")], ErrorCode.DUPLICATE_RESOURCE, TWICE),
    ],
)
def test_who_is_refused(items: Sequence[Any], code: ErrorCode, said: str) -> None:
    refused, changes = in_one_go(judge(request_of(*items)))
    (problem,) = refused.values()
    assert (problem.code, problem.message, changes) == (code, said, {})


def test_one_mistake_refuses_everything_of_that_user_and_nothing_of_others() -> None:
    refused, changes = in_one_go(
        judge(request_of(upsertion("u"), upsertion("u", 9), upsertion("v"), upsertion("v", SHA_512)))
    )
    assert list(refused) == ["u"] and list(changes) == ["v"]
    assert list(changes["v"].set) == list(ScramMechanism)


@pytest.mark.parametrize("iterations", [4096, 16384])
def test_bounds_of_iterations_are_allowed(iterations: int) -> None:
    refused, changes = in_one_go(judge(request_of(upsertion("u", iterations=iterations))))
    assert not refused and changes["u"].set[ScramMechanism.SCRAM_SHA_256].iterations == iterations


def test_a_change_keeps_what_is_no_credential() -> None:
    _, changes = in_one_go(judge(request_of(upsertion("u", SHA_512), deletion("u"))))
    settings = {"producer_byte_rate": "5", "SCRAM-SHA-256": "old"}
    changed = changes["u"].apply(settings)
    assert sorted(changed) == ["SCRAM-SHA-512", "producer_byte_rate"]
    with pytest.raises(KafkaError, match=ABSENT):
        changes["u"].apply({"producer_byte_rate": "5"})


class Scene:
    """A broker as far as the handlers use it."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.controller = FakeController()
        self.parts = MemoryParts()
        self.parts.keep_in(store)
        self.parts.controller = self.controller
        self.context = context_of(0)

    async def alter(self, *items: Any) -> dict[str, tuple[int, str | None]]:
        reply = await alter_user_scram_credentials(self.parts, request_of(*items), self.context)
        return {each.user: (each.error_code, each.error_message) for each in reply.results}

    async def describe(self, *users: str) -> dict[str, Any]:
        m = messages.describe_user_scram_credentials_request
        request = m.DescribeUserScramCredentialsRequest(users=[m.UserName(name=each) for each in users] or None)
        reply = await describe_user_scram_credentials(self.parts, request, self.context)
        assert (reply.error_code, reply.error_message) == DONE
        return {
            each.user: {info.mechanism: info.iterations for info in each.credential_infos}
            if not each.error_code
            else (each.error_code, each.error_message)
            for each in reply.results
        }

    async def set_quota(self, user: str, rate: float | None) -> None:
        m = messages.alter_client_quotas_request
        op = m.OpData(key="producer_byte_rate", value=rate or 0.0, remove=rate is None)
        entry = m.EntryData(entity=[m.EntityData(entity_type="user", entity_name=user)], ops=[op])
        request = m.AlterClientQuotasRequest(entries=[entry])
        (answer,) = (await alter_client_quotas(self.parts, request, self.context)).entries
        assert answer.error_code == 0

    async def quotas(self) -> dict[str | None, dict[str, float]]:
        request = messages.describe_client_quotas_request.DescribeClientQuotasRequest()
        reply = await describe_client_quotas(self.parts, request, self.context)
        return {each.entity[0].entity_name: {value.key: value.value for value in each.values} for each in reply.entries}

    async def znode(self, user: str) -> bytes:
        return (await self.store.read(f"/config/users/{user}"))[0]

    async def last_change(self) -> bytes:
        name = max(await self.store.children(paths.CONFIG_CHANGES))
        return (await self.store.read(paths.child(paths.CONFIG_CHANGES, name)))[0]


def play(scenario: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(10)
        await create_top_level(store)
        await asyncio.wait_for(scenario(Scene(store)), 60)
        await store.close()

    virtual_time.run(run())


def test_credentials_are_kept_as_kafka_keeps_them() -> None:
    async def scenario(scene: Scene) -> None:
        assert await scene.alter(upsertion("u")) == {"u": DONE}
        text = credential_of(ScramMechanism.SCRAM_SHA_256, b"p" * 32, b"salt", 4096).encode()
        assert await scene.znode("u") == b'{"version":1,"config":{"SCRAM-SHA-256":"%s"}}' % text.encode()
        assert await scene.last_change() == b'{"version":2,"entity_path":"users/u"}'
        assert await scene.alter(upsertion("u", SHA_512, 8192), upsertion("ü/<default>")) == {
            "u": DONE,
            "ü/<default>": DONE,
        }
        assert await scene.last_change() == b'{"version":2,"entity_path":"users/%C3%BC%2F%3Cdefault%3E"}'
        assert await scene.describe() == {"u": {SHA_256: 4096, SHA_512: 8192}, "ü/<default>": {SHA_256: 4096}}

    play(scenario)


def test_the_user_named_like_the_default_is_not_the_default() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.store.create("/config/users/<default>", b'{"version":1,"config":{"producer_byte_rate":"5"}}')
        assert await scene.alter(upsertion("<default>")) == {"<default>": DONE}
        assert await scene.describe() == {"<default>": {SHA_256: 4096}}
        assert await scene.quotas() == {None: {"producer_byte_rate": 5.0}}

    play(scenario)


def test_quotas_and_credentials_of_a_user_leave_each_other_alone() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.alter(upsertion("u"))
        assert await scene.quotas() == {}, "credentials are no quotas"
        await scene.set_quota("u", 5)
        assert await scene.describe("u") == {"u": {SHA_256: 4096}}
        await scene.alter(deletion("u"), upsertion("u", SHA_512))
        assert await scene.quotas() == {"u": {"producer_byte_rate": 5.0}}
        await scene.set_quota("u", None)
        assert list(json.loads(await scene.znode("u"))["config"]) == ["SCRAM-SHA-512"]
        assert await scene.alter(deletion("u", SHA_512)) == {"u": DONE}
        with pytest.raises(NoNodeError):
            await scene.znode("u")

    play(scenario)


def test_who_has_no_credential() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.set_quota("quota", 5)
        assert await scene.describe() == {}
        assert await scene.describe("quota", "", "twice", "twice") == {
            "quota": (
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to describe a user credential that does not exist: quota",
            ),
            "": (ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty"),
            "twice": (
                ErrorCode.DUPLICATE_RESOURCE,
                "Cannot describe SCRAM credentials for the same user twice in a single request: twice",
            ),
        }
        assert await scene.alter(deletion("quota"), upsertion("other"), upsertion("bad", iterations=1)) == {
            "bad": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
            "quota": (ErrorCode.RESOURCE_NOT_FOUND, ABSENT),
            "other": DONE,
        }
        assert await scene.alter() == {}

    play(scenario)


def test_a_credential_that_cannot_be_read_is_told_and_can_be_deleted() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.store.create("/config/users/u", b'{"version":1,"config":{"SCRAM-SHA-256":"nonsense"}}')
        assert (await scene.describe())["u"][0] == ErrorCode.UNKNOWN_SERVER_ERROR
        assert await scene.alter(deletion("u")) == {"u": DONE}

    play(scenario)


def test_only_the_controller_alters() -> None:
    async def scenario(scene: Scene) -> None:
        scene.controller.is_active = False
        with pytest.raises(KafkaError) as caught:
            await scene.alter(upsertion("u"), deletion("v"))
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
        request = request_of(upsertion("u"), deletion("v"), deletion("u", SHA_512))
        reply = APIS[1].failure(request, caught.value.code, caught.value.message)
        said = "This is not the correct controller for this cluster."
        assert [(each.user, each.error_code, each.error_message) for each in reply.results] == [
            ("u", ErrorCode.NOT_CONTROLLER, said),
            ("v", ErrorCode.NOT_CONTROLLER, said),
        ]

    play(scenario)
