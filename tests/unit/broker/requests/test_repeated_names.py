"""What a request names several times is answered once."""

from __future__ import annotations

import pytest

from kafkalite.coordinators.group.requests import OffsetToCommit
from kafkalite.errors import BoundExceeded, ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition
from tests.unit.broker.memory_parts import know
from tests.unit.broker.requests.test_much_work import NAMES, UNKNOWN, Site, codes_of, partitions_of, play
from zk import paths
from zk.znodes import ConfigEntity


def test_a_topic_that_is_named_a_hundred_times_is_told_once() -> None:
    async def scenario(site: Site) -> None:
        m = messages.metadata_request
        named = [m.MetadataRequestTopic(name=name) for name in ("t", "", "absent") for _ in range(100)]
        reply = await site.serve(m.MetadataRequest(topics=named, allow_auto_topic_creation=False), 9)
        assert [each.name for each in reply.topics] == ["t", "", "absent"]

    play(scenario)


def test_offsets_that_are_named_often_are_told_once() -> None:
    async def scenario(site: Site) -> None:
        site.commit([OffsetToCommit("t", 0, 7, -1, "long metadata")])
        m = messages.offset_fetch_request
        topics = [m.OffsetFetchRequestTopics(name="t", partition_indexes=[0, 0, 1]) for _ in range(2)]
        groups = [m.OffsetFetchRequestGroup(group_id="g", topics=topics) for _ in range(2)]
        (group,) = (await site.serve(m.OffsetFetchRequest(groups=groups), 8)).groups
        found = [(each.partition_index, each.committed_offset) for each in partitions_of(group.topics)]
        assert found == [(0, 7), (1, -1)]

    play(scenario)


def test_offsets_of_a_transaction_are_told_as_unstable() -> None:
    async def scenario(site: Site) -> None:
        site.commit([OffsetToCommit("t", 0, 7), OffsetToCommit("t", 1, 8)])
        m, c = messages.offset_fetch_request, messages.txn_offset_commit_request
        partitions = [
            c.TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=70) for index in (0, -1)
        ]
        topics = [c.TxnOffsetCommitRequestTopic(name="t", partitions=partitions)]
        commit = c.TxnOffsetCommitRequest(
            transactional_id="x", group_id="g", generation_id=-1, producer_id=5, producer_epoch=0, topics=topics
        )
        codes = [each.error_code for each in partitions_of((await site.serve(commit, 3)).topics)]
        assert codes == [ErrorCode.NONE, UNKNOWN]

        async def fetched(require_stable: bool) -> list[tuple[int, int]]:
            groups = [m.OffsetFetchRequestGroup(group_id="g", topics=None)]
            request = m.OffsetFetchRequest(groups=groups, require_stable=require_stable)
            answers = partitions_of((await site.serve(request, 8)).groups[0].topics)
            return [(each.committed_offset, each.error_code) for each in answers]

        assert await fetched(False) == [(7, 0), (8, 0)]
        assert await fetched(True) == [(-1, ErrorCode.UNSTABLE_OFFSET_COMMIT), (8, 0)]
        site.parts.groups.on_transaction_end(0, site.log.end_offset, 5, True)
        assert await fetched(True) == [(70, 0), (8, 0)]

    play(scenario)


def test_to_old_producers_a_coordinator_that_loads_is_not_there() -> None:
    async def scenario(site: Site) -> None:
        site.parts.groups.shards[0].loaded = False
        c = messages.txn_offset_commit_request
        topics = [
            c.TxnOffsetCommitRequestTopic(name="t", partitions=[c.TxnOffsetCommitRequestPartition(partition_index=0)])
        ]
        request = c.TxnOffsetCommitRequest(transactional_id="x", group_id="g", topics=topics)
        for version, code in (
            (1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ):
            assert codes_of(partitions_of((await site.serve(request, version)).topics)) == {code}

    play(scenario)


def test_an_offset_fetch_of_more_partitions_than_any_cluster_has_closes_the_connection() -> None:
    async def scenario(site: Site) -> None:
        m = messages.offset_fetch_request
        for count, topics in ((200_001, 1), (1000, 201)):
            asked = [m.OffsetFetchRequestTopics(name="t", partition_indexes=[0] * count)] * topics
            request = m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup(group_id="g", topics=asked)])
            with pytest.raises(BoundExceeded, match="more than 200000 partitions"):
                await site.serve(request, 8)

    play(scenario)


def test_list_offsets_refuses_a_partition_that_is_named_twice() -> None:
    async def scenario(site: Site) -> None:
        m = messages.list_offsets_request
        asked = [m.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1, 1)]
        request = m.ListOffsetsRequest(replica_id=-1, topics=[m.ListOffsetsTopic(name="t", partitions=asked)])
        codes = [each.error_code for each in partitions_of((await site.serve(request, 5)).topics)]
        assert codes == [0, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]

    play(scenario)


def test_a_broker_that_is_described_under_many_names_is_told_once() -> None:
    async def scenario(site: Site) -> None:
        m = messages.describe_configs_request
        names = [("1", ["broker.id"]), ("01", ["log.dir"]), ("001", ["broker.id"]), ("9" * 5000, None), ("²", None)]
        resources = [
            m.DescribeConfigsResource(resource_type=4, resource_name=name, configuration_keys=keys)
            for name, keys in names
        ]
        own, *refused = (await site.serve(m.DescribeConfigsRequest(resources=resources), 4)).results
        assert sorted(each.name for each in own.configs) == ["broker.id", "log.dir"]
        assert [each.error_code for each in refused] == [ErrorCode.INVALID_REQUEST] * 2

    play(scenario)


def test_topics_without_overrides_share_what_is_told_of_them() -> None:
    async def scenario(site: Site) -> None:
        topics = NAMES[:300]
        for name in topics:
            know(site.parts.metadata, TopicPartition(name, 0))
        path = paths.topic_config(topics[7])
        await site.parts.store.create(path, ConfigEntity({"retention.ms": "5"}).encode(), parents=True)
        m = messages.describe_configs_request
        resources = [m.DescribeConfigsResource(resource_type=2, resource_name=name) for name in topics]
        results = (await site.serve(m.DescribeConfigsRequest(resources=resources), 4)).results
        assert len({id(each.configs) for each in results}) == 2
        assert [each.value for each in results[7].configs if each.name == "retention.ms"] == ["5"]
        site.assert_portions()

    play(scenario)
