"""What `kafkalite migrate` reads of brokers and ZooKeeper."""

from __future__ import annotations

from kafkalite.administration.broker_releases import Release, find_release
from kafkalite.cli.migrate.survey import SurveyedMetadata, survey_metadata
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.testing.simulation import virtual_time
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.znodes import AclWords, ConfigEntity, Feature, ResourceAcls, TopicAssignment

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
        )
        assert [each.split(":")[0] for each in found.unreadable] == [paths.topic("odd")]

    virtual_time.run(scenario())


def test_the_release_shows_in_the_versions_of_apis() -> None:
    assert find_release({key: (0, api.max_version) for key, api in APIS.items()}) == Release(3, 9)
    assert find_release({ApiKey.FETCH: (0, 12), ApiKey.PRODUCE: (0, 9), ApiKey.METADATA: (0, 11)}) == Release(2, 8)
    assert find_release({ApiKey.FETCH: (0, 7), ApiKey.PRODUCE: (0, 5), ApiKey.METADATA: (0, 5)}) == Release(1, 1)
    assert find_release({ApiKey.FETCH: (0, 3)}) is None
    assert str(Release(0, 11)) == "0.11"
