"""What `kafkalite migrate` reads of brokers and ZooKeeper."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from kafkalite.administration.broker_releases import Release, find_release
from kafkalite.cli.migrate.survey import (
    OpenTransactions,
    SurveyedMetadata,
    find_transactions,
    read_cluster_id,
    survey_metadata,
)
from kafkalite.client import Admin, AdminError, ClientError, TransactionDescription, TransactionListing
from kafkalite.client.errors import error_of
from kafkalite.errors import ErrorCode
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.testing.simulation import virtual_time
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.znodes import AclWords, ClusterId, ConfigEntity, Feature, ResourceAcls, TopicAssignment

ACLS = ResourceAcls((AclWords("User:a", "Allow", "Read", "*"), AclWords("User:b", "Allow", "Read", "*")))


def test_all_that_is_set_is_read_and_nothing_is_made() -> None:
    async def scenario() -> None:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(10)
        assert await survey_metadata(store) == SurveyedMetadata()
        for path, data in {
            paths.topic("moves"): TopicAssignment({0: (1, 2)}, adding={0: (2,)}).encode(),
            paths.topic("stays"): TopicAssignment({0: (1,)}).encode(),
            paths.topic("odd"): b"no JSON",
            paths.delete_topic("gone"): b"",
            paths.topic_config("stays"): ConfigEntity({"retention.ms": "1"}).encode(),
            paths.topic_config("moves"): ConfigEntity().encode(),
            paths.user_config("u"): ConfigEntity({"producer_byte_rate": "1"}).encode(),
            paths.user_config("u", "c"): ConfigEntity({"consumer_byte_rate": "1"}).encode(),
            paths.resource_acls("Topic", "t", False): ACLS.encode(),
            paths.resource_acls("Group", "g", True): ACLS.encode(),
            f"{paths.DELEGATION_TOKENS}/token": b"{}",
            paths.FEATURE: Feature(features={"metadata.version": 19}).encode(),
            paths.CLUSTER_ID: ClusterId("id").encode(),
        }.items():
            await store.create(f"/kafka{path}", data, parents=True)
        found = await survey_metadata(store, "/kafka")
        assert found == SurveyedMetadata(
            settings={
                "topics/stays": {"retention.ms": "1"},
                "users/u": {"producer_byte_rate": "1"},
                "users/u/clients/c": {"consumer_byte_rate": "1"},
            },
            acls=4,
            tokens=1,
            features={"metadata.version": 19},
            moving=("moves",),
            deleting=("gone",),
            unreadable=found.unreadable,
            cluster_id="id",
        )
        assert [each.split(":")[0] for each in found.unreadable] == [paths.topic("odd")]
        assert await read_cluster_id(store, "/kafka") == "id"
        assert await read_cluster_id(store) is None

    virtual_time.run(scenario())


def test_the_release_shows_in_the_versions_of_apis() -> None:
    assert find_release({key: (0, api.max_version) for key, api in APIS.items()}) == Release(3, 9)
    assert find_release({ApiKey.FETCH: (0, 12), ApiKey.PRODUCE: (0, 9), ApiKey.METADATA: (0, 11)}) == Release(2, 8)
    assert find_release({ApiKey.FETCH: (0, 7), ApiKey.PRODUCE: (0, 5), ApiKey.METADATA: (0, 5)}) == Release(1, 1)
    assert find_release({ApiKey.FETCH: (0, 3)}) is None
    assert str(Release(0, 11)) == "0.11"


def listing(name: str) -> TransactionListing:
    return TransactionListing(name, 1, "Ongoing", 1)


class Coordinators:
    """What `Admin` says of transactions: of those that it lists, `forgotten` is not there any more when it is asked for."""

    def __init__(self, problem: ClientError | None = None) -> None:
        self._problem = problem

    async def list_transactions(self, states: object) -> list[TransactionListing]:
        if self._problem is not None:
            raise self._problem
        return [listing(name) for name in ("fresh", "forgotten", "overdue", "empty")]

    async def describe_transactions(self, names: list[str]) -> dict[str, TransactionDescription]:
        (name,) = names
        if name == "forgotten":
            raise AdminError({name: error_of(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, name)})
        begun_ms = {"fresh": 1_000_000, "overdue": 900_000, "empty": None}[name]
        return {name: TransactionDescription(name, 1, "Ongoing", 1, 0, 30_000, begun_ms, ())}


def test_transactions_that_are_open_beyond_their_timeout() -> None:
    async def ask(problem: ClientError | None = None) -> OpenTransactions | None:
        return await find_transactions(cast("Admin", Coordinators(problem)), 1_000_000)

    assert asyncio.run(ask()) == OpenTransactions(4, ("overdue",))
    assert asyncio.run(ask(error_of(ErrorCode.UNSUPPORTED_VERSION, "old"))) is None
    with pytest.raises(ClientError):
        asyncio.run(ask(error_of(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")))
