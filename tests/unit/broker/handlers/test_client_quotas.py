"""Client quotas over the protocol and in ZooKeeper: paths, notifications, filters, what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkalite.broker.handlers.client_quotas import alter_client_quotas, describe_client_quotas
from kafkalite.broker.settings.quota_znodes import all_quotas, entity_of, entity_path
from kafkalite.broker.settings.quotas import DEFAULT, QuotaEntity
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.memory_parts import MemoryParts, context_of
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.store import NoNodeError
from zk.top_level import create_top_level

PATHS = {
    QuotaEntity("u"): "users/u",
    QuotaEntity(DEFAULT): "users/<default>",
    QuotaEntity("an ü", "c/d"): "users/an%20%C3%BC/clients/c%2Fd",
    QuotaEntity("u", DEFAULT): "users/u/clients/<default>",
    QuotaEntity(client_id="c*"): "clients/c%2A",
    QuotaEntity(client_id="<default>"): "clients/%3Cdefault%3E",
    QuotaEntity(ip="10.0.0.1"): "ips/10.0.0.1",
    QuotaEntity(ip=DEFAULT): "ips/<default>",
}


@pytest.mark.parametrize(("entity", "path"), PATHS.items())
def test_the_znode_of_an_entity(entity: QuotaEntity, path: str) -> None:
    assert entity_path(entity) == path
    kind, _, name = path.partition("/")
    assert entity_of(kind, name) == entity


def test_topics_and_brokers_have_no_quotas() -> None:
    assert entity_of("topics", "t") is None
    assert entity_of("brokers", "1") is None


class Scene:
    """A broker as far as the handlers use it."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.parts = MemoryParts()
        self.parts.keep_in(store)

    async def alter(self, entity: dict[str, str | None], validate_only: bool = False, **quotas: float | None) -> Any:
        m = messages.alter_client_quotas_request
        ops = [m.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()]
        parts = [m.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        request = m.AlterClientQuotasRequest(entries=[m.EntryData(entity=parts, ops=ops)], validate_only=validate_only)
        (entry,) = (await alter_client_quotas(self.parts, request, context_of(1))).entries
        assert {each.entity_type: each.entity_name for each in entry.entity} == entity
        return entry.error_code, entry.error_message

    async def describe(self, *components: tuple[str, int, str | None], strict: bool = False) -> list[Any]:
        m = messages.describe_client_quotas_request
        request = m.DescribeClientQuotasRequest(
            components=[m.ComponentData(entity_type=k, match_type=t, match=n) for k, t, n in components], strict=strict
        )
        reply = await describe_client_quotas(self.parts, request, context_of(1))
        return [
            (
                [(each.entity_type, each.entity_name) for each in entry.entity],
                {each.key: each.value for each in entry.values},
            )
            for entry in reply.entries
        ]

    async def changes(self) -> list[bytes]:
        names = sorted(await self.store.children(paths.CONFIG_CHANGES))
        return [(await self.store.read(paths.child(paths.CONFIG_CHANGES, name)))[0] for name in names]


def play(scenario: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(10)
        await create_top_level(store)
        await asyncio.wait_for(scenario(Scene(store)), 60)
        await store.close()

    virtual_time.run(run())


def test_quotas_are_kept_as_kafka_keeps_them() -> None:
    async def scenario(scene: Scene) -> None:
        assert await scene.alter({"client-id": "app"}, producer_byte_rate=1e6) == (0, None)
        assert await scene.alter({"user": "u", "client-id": None}, consumer_byte_rate=5.0, request_percentage=50) == (
            0,
            None,
        )
        data, _ = await scene.store.read("/config/clients/app")
        assert data == b'{"version":1,"config":{"producer_byte_rate":"1000000"}}'
        data, _ = await scene.store.read("/config/users/u/clients/<default>")
        assert data == b'{"version":1,"config":{"consumer_byte_rate":"5","request_percentage":"50.0"}}'
        assert await scene.changes() == [
            b'{"version":2,"entity_path":"clients/app"}',
            b'{"version":2,"entity_path":"users/u/clients/<default>"}',
        ]
        assert await all_quotas(scene.store, scene.parts.dynamic_configs.read) == {
            QuotaEntity(client_id="app"): {"producer_byte_rate": 1e6},
            QuotaEntity("u", DEFAULT): {"consumer_byte_rate": 5.0, "request_percentage": 50.0},
        }

    play(scenario)


def test_an_entity_without_quotas_has_no_znode() -> None:
    async def scenario(scene: Scene) -> None:
        both = {"user": "u", "client-id": "c"}
        await scene.alter({"user": "u"}, producer_byte_rate=1)
        await scene.alter(both, producer_byte_rate=2)
        await scene.alter({"user": "u"}, producer_byte_rate=None)
        assert (await scene.store.read("/config/users/u"))[0] == b'{"version":1,"config":{}}'
        await scene.alter(both, producer_byte_rate=None)
        with pytest.raises(NoNodeError):
            await scene.store.read("/config/users/u")
        assert await scene.store.exists("/config/users") is not None
        assert await scene.alter({"client-id": "never"}, producer_byte_rate=None) == (0, None)
        assert await scene.store.children("/config/clients") == []

    play(scenario)


def test_validation_writes_nothing() -> None:
    async def scenario(scene: Scene) -> None:
        assert await scene.alter({"client-id": "c"}, validate_only=True, producer_byte_rate=1) == (0, None)
        code, said = await scene.alter({"client-id": "c"}, validate_only=True, producer_byte_rate=1.5)
        assert (code, said) == (ErrorCode.INVALID_REQUEST, "Configuration producer_byte_rate must be a LONG value")
        assert await scene.store.children("/config/clients") == []
        assert await scene.changes() == []

    play(scenario)


@pytest.mark.parametrize(
    ("entity", "said"),
    [
        ({}, "Invalid empty client quota entity"),
        ({"user": ""}, "Empty user not supported"),
        ({"team": "a"}, "Unhandled client quota entity type: team"),
        (
            {"ip": "10.0.0.1", "user": "u"},
            "Invalid quota entity combination, IP entity should not be used with user/client ID entity.",
        ),
    ],
)
def test_entities_that_are_none(entity: dict[str, str | None], said: str) -> None:
    async def scenario(scene: Scene) -> None:
        assert await scene.alter(entity, producer_byte_rate=1) == (ErrorCode.INVALID_REQUEST, said)

    play(scenario)


EXACT, OF_DEFAULT, ANY = 0, 1, 2


def test_filters() -> None:
    async def scenario(scene: Scene) -> None:
        entities: list[dict[str, str | None]] = [
            {"user": "u"},
            {"user": None},
            {"user": "u", "client-id": "c"},
            {"client-id": "c"},
            {"client-id": None},
        ]
        for number, entity in enumerate(entities):
            await scene.alter(entity, producer_byte_rate=number)
        await scene.alter({"ip": "10.0.0.1"}, connection_creation_rate=9)

        async def found(*components: tuple[str, int, str | None], strict: bool = False) -> set[float]:
            described = await scene.describe(*components, strict=strict)
            return {value for _, quotas in described for value in quotas.values()}

        assert await found() == {0, 1, 2, 3, 4, 9}
        assert await found(strict=True) == set()
        assert await found(("user", EXACT, "u")) == {0, 2}
        assert await found(("user", EXACT, "u"), strict=True) == {0}
        assert await found(("user", OF_DEFAULT, None)) == {1}
        assert await found(("user", ANY, None), strict=True) == {0, 1}
        assert await found(("client-id", ANY, None)) == {2, 3, 4}
        assert await found(("user", ANY, None), ("client-id", ANY, None)) == {2}
        assert await found(("ip", ANY, None)) == {9}
        assert await scene.describe(("client-id", OF_DEFAULT, None)) == [
            ([("client-id", None)], {"producer_byte_rate": 4.0})
        ]

    play(scenario)


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "u")], ErrorCode.INVALID_REQUEST),
        ([("team", EXACT, "u")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", EXACT, "u"), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 7, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_that_make_no_sense(components: list[tuple[str, int, str | None]], code: ErrorCode) -> None:
    async def scenario(scene: Scene) -> None:
        with pytest.raises(KafkaError) as caught:
            await scene.describe(*components)
        assert caught.value.code is code

    play(scenario)


def test_what_is_no_number_is_left_out() -> None:
    async def scenario(scene: Scene) -> None:
        written = b'{"version":1,"config":{"producer_byte_rate":"fast","consumer_byte_rate":"7","SCRAM-SHA-256":"x"}}'
        await scene.store.create("/config/users/u", written)
        assert await scene.describe() == [([("user", "u")], {"consumer_byte_rate": 7.0})]

    play(scenario)
