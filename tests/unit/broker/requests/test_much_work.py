"""Requests that name very much, and answers that tell very much: the loop turns while they are served, and what is named twice costs once.

Each API gets four thousand items: eight portions, of which the loop may do none together with another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kafkalite.broker.handlers import SERVED
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.coordinators.group.machine import GroupMachine
from kafkalite.coordinators.group.requests import CommitOffsets, OffsetToCommit
from kafkalite.coordinators.group.settings import GroupSettings
from kafkalite.coordinators.runtime import CoordinatorRuntime, HostingRules
from kafkalite.coordinators.transaction.machine import TransactionMachine
from kafkalite.coordinators.transaction.requests import InitProducerId
from kafkalite.coordinators.transaction.settings import TransactionSettings
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.case import case
from tests.unit.broker.loop_turns import Turns, measured_turns
from tests.unit.broker.memory_parts import MemoryParts, context_of, know, leader
from tests.unit.coordinators.test_runtime import FakeLog
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper

MANY = 4000
LITTLE_CALLS = 4000
"""Less than what any handler needs for MANY items: who does not need more refused the request as a whole."""
INDEXES = list(range(MANY))
NAMES = [f"name-{index}" for index in INDEXES]
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Site:
    """Parts in memory with a topic "t" of one partition that is led here and MANY others, a coordinator, a controller and ZooKeeper."""

    def __init__(self) -> None:
        self.parts: Any = MemoryParts(leader(end=5))
        for index in INDEXES[1:]:
            know(self.parts.metadata, TopicPartition("t", index), leader=2)
        zookeeper = MemoryZooKeeper()
        self.parts.keep_in(MemoryStore(zookeeper))
        self.parts.groups = CoordinatorRuntime(
            "__consumer_offsets",
            HostingRules(load_buffer_bytes=1 << 20, append_timeout_ms=5000, codec=0, required_acks=-1),
            lambda partition: GroupMachine(GroupSettings(initial_rebalance_delay_ms=0)),
            lambda: 1,
            virtual_time.VirtualClock(),
            lambda coroutine, name: asyncio.ensure_future(coroutine),
            lambda reason: None,
        )
        self.parts.transactions = CoordinatorRuntime(
            "__transaction_state",
            HostingRules(load_buffer_bytes=1 << 20, append_timeout_ms=5000, codec=0, required_acks=-1),
            lambda partition: TransactionMachine(TransactionSettings()),
            lambda: 1,
            virtual_time.VirtualClock(),
            lambda coroutine, name: asyncio.ensure_future(coroutine),
            lambda reason: None,
        )
        self.log = FakeLog()
        self.turns = Turns()

    async def open(self) -> Site:
        await self.parts.store.start(1.0)
        self.parts.groups.on_election(0, 1, self.log)
        self.parts.transactions.on_election(0, 1, FakeLog())
        await virtual_time.settle()
        return self

    async def serve(self, request: Any, version: int) -> Any:
        """What the handler answers; `turns` are those of this request."""
        (api,) = (each for each in SERVED if each.api.key == request.API.key)
        context: RequestContext = context_of(version, size=1 << 20)
        with measured_turns() as self.turns:
            reply: Any = api.handle(self.parts, request, context)
            if isinstance(reply, Awaitable):
                reply = await reply
        return reply

    def assert_portions(self) -> None:
        """No turn of the loop did more than a third of the work."""
        assert self.turns.longest < max(LITTLE_CALLS, self.turns.calls / 3), self.turns

    def commit(self, offsets: list[OffsetToCommit], group: str = "g") -> None:
        self.parts.groups.submit(group, CommitOffsets(group, -1, "", None, offsets), lambda codes: codes)


def play(scenario: Callable[[Site], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario(await Site().open())

    virtual_time.run(run())


def partitions_of(topics: Any) -> list[Any]:
    return [each for topic in topics for each in topic.partitions]


class Row:
    """A request of MANY items; `check(reply)` fails when the reply is wrong."""

    def __init__(self, version: int, request: Any, check: Callable[[Any], object]) -> None:
        self.version, self.request, self.check = version, request, check


def codes_of(items: Any) -> set[int]:
    return {each.error_code for each in items}


def rows() -> list[Row]:
    m = messages
    f = m.fetch_request
    fetched = [f.FetchPartition(partition=index, partition_max_bytes=10) for index in INDEXES]
    listed = [m.list_offsets_request.ListOffsetsPartition(partition_index=i, timestamp=-1) for i in INDEXES]
    epochs = [m.offset_for_leader_epoch_request.OffsetForLeaderPartition(partition=i, leader_epoch=4) for i in INDEXES]
    commits = [
        m.offset_commit_request.OffsetCommitRequestPartition(partition_index=i, committed_offset=7) for i in INDEXES
    ]
    transactional = m.txn_offset_commit_request
    pending = [transactional.TxnOffsetCommitRequestPartition(partition_index=i, committed_offset=7) for i in INDEXES]
    produced = [m.produce_request.PartitionProduceData(index=i, records=b"abc") for i in INDEXES]
    deletions = [m.offset_delete_request.OffsetDeleteRequestPartition(partition_index=i) for i in INDEXES]
    cut = [m.delete_records_request.DeleteRecordsPartition(partition_index=i, offset=-1) for i in INDEXES[1:]]
    configs = m.describe_configs_request.DescribeConfigsResource
    group = m.offset_fetch_request.OffsetFetchRequestGroup
    topic = m.offset_fetch_request.OffsetFetchRequestTopics
    markers = m.write_txn_markers_request
    adding = m.add_partitions_to_txn_request
    some = [adding.AddPartitionsToTxnTopic(name="t", partitions=[1])]
    ended = [markers.WritableTxnMarkerTopic(name="t", partition_indexes=INDEXES)]
    alter, incremental = m.alter_configs_request, m.incremental_alter_configs_request
    quota = m.alter_client_quotas_request
    scram = m.describe_user_scram_credentials_request
    protocols = [m.join_group_request.JoinGroupRequestProtocol(name="x", metadata=b"")] * MANY
    leaving = [m.leave_group_request.MemberIdentity(member_id=name) for name in NAMES]
    given = [m.sync_group_request.SyncGroupRequestAssignment(member_id=name, assignment=b"") for name in NAMES]
    named = [m.metadata_request.MetadataRequestTopic(name=name) for name in NAMES]

    def of(topics: Any, code: int, count: int = MANY) -> None:
        found = partitions_of(topics)
        assert len(found) == count and codes_of(found[1:]) == {code}, (len(found), codes_of(found))

    return [
        Row(12, m.metadata_request.MetadataRequest(topics=None), lambda r: of(r.topics, 0)),
        Row(
            12,
            m.metadata_request.MetadataRequest(topics=named, allow_auto_topic_creation=False),
            lambda r: codes_of(r.topics) == {UNKNOWN} and len(r.topics) == MANY,
        ),
        Row(
            11,
            f.FetchRequest(
                replica_id=-1,
                max_bytes=100,
                max_wait_ms=500,
                session_epoch=-1,
                topics=[f.FetchTopic(topic="t", partitions=fetched)],
            ),
            lambda r: of(r.responses, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ),
        Row(
            9,
            m.produce_request.ProduceRequest(
                acks=1,
                timeout_ms=1000,
                topic_data=[m.produce_request.TopicProduceData(name="t", partition_data=produced)],
            ),
            lambda r: codes_of(r.responses[0].partition_responses) == {0, ErrorCode.NOT_LEADER_OR_FOLLOWER},
        ),
        Row(
            1,
            markers.WriteTxnMarkersRequest(
                markers=[markers.WritableTxnMarker(producer_id=1, producer_epoch=0, topics=ended)]
            ),
            lambda r: of(r.markers[0].topics, UNKNOWN),
        ),
        Row(
            3,
            adding.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="unknown",
                v3_and_below_topics=[adding.AddPartitionsToTxnTopic(name="t", partitions=INDEXES)],
            ),
            lambda r: len(r.results_by_topic_v3_and_below[0].results_by_partition) == MANY,
        ),
        Row(
            5,
            adding.AddPartitionsToTxnRequest(
                transactions=[
                    adding.AddPartitionsToTxnTransaction(transactional_id=name, verify_only=index % 2 == 0, topics=some)
                    for index, name in enumerate(NAMES)
                ]
            ),
            lambda r: len(r.results_by_transaction) == MANY,
        ),
        Row(
            0,
            m.describe_transactions_request.DescribeTransactionsRequest(transactional_ids=NAMES),
            lambda r: codes_of(r.transaction_states) == {ErrorCode.TRANSACTIONAL_ID_NOT_FOUND},
        ),
        Row(
            5,
            m.list_offsets_request.ListOffsetsRequest(
                replica_id=-1, topics=[m.list_offsets_request.ListOffsetsTopic(name="t", partitions=listed)]
            ),
            lambda r: of(r.topics, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ),
        Row(
            4,
            m.offset_for_leader_epoch_request.OffsetForLeaderEpochRequest(
                topics=[m.offset_for_leader_epoch_request.OffsetForLeaderTopic(topic="t", partitions=epochs)]
            ),
            lambda r: of(r.topics, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ),
        Row(
            8,
            m.offset_commit_request.OffsetCommitRequest(
                group_id="g",
                generation_id_or_member_epoch=-1,
                topics=[m.offset_commit_request.OffsetCommitRequestTopic(name="t", partitions=commits)],
            ),
            lambda r: of(r.topics, 0),
        ),
        Row(
            4,
            transactional.TxnOffsetCommitRequest(
                group_id="g",
                generation_id=-1,
                producer_id=1,
                producer_epoch=0,
                topics=[transactional.TxnOffsetCommitRequestTopic(name="t", partitions=pending)],
            ),
            lambda r: of(r.topics, 0),
        ),
        Row(
            8,
            m.offset_fetch_request.OffsetFetchRequest(groups=[group(group_id="g", topics=None)]),
            lambda r: of(r.groups[0].topics, 0),
        ),
        Row(
            8,
            m.offset_fetch_request.OffsetFetchRequest(
                groups=[group(group_id="g", topics=[topic(name="t", partition_indexes=INDEXES)])]
            ),
            lambda r: of(r.groups[0].topics, 0),
        ),
        Row(
            0,
            m.offset_delete_request.OffsetDeleteRequest(
                group_id="g", topics=[m.offset_delete_request.OffsetDeleteRequestTopic(name="t", partitions=deletions)]
            ),
            lambda r: of(r.topics, 0),
        ),
        Row(
            2,
            m.delete_records_request.DeleteRecordsRequest(
                topics=[m.delete_records_request.DeleteRecordsTopic(name="t", partitions=cut)], timeout_ms=0
            ),
            lambda r: of(r.topics, ErrorCode.NOT_LEADER_OR_FOLLOWER, MANY - 1),
        ),
        Row(
            0,
            m.describe_producers_request.DescribeProducersRequest(
                topics=[m.describe_producers_request.TopicRequest(name="t", partition_indexes=INDEXES[1:])]
            ),
            lambda r: of(r.topics, ErrorCode.NOT_LEADER_OR_FOLLOWER, MANY - 1),
        ),
        Row(5, m.describe_groups_request.DescribeGroupsRequest(groups=NAMES), lambda r: len(r.groups) == MANY),
        Row(
            2,
            m.delete_groups_request.DeleteGroupsRequest(groups_names=NAMES),
            lambda r: codes_of(r.results) == {ErrorCode.GROUP_ID_NOT_FOUND},
        ),
        Row(
            4, m.find_coordinator_request.FindCoordinatorRequest(coordinator_keys=NAMES), lambda r: len(r.coordinators)
        ),
        Row(
            5,
            m.join_group_request.JoinGroupRequest(
                group_id="g", session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols
            ),
            lambda r: r.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ),
        Row(
            5,
            m.sync_group_request.SyncGroupRequest(
                group_id="other", protocol_type="consumer", protocol_name="x", assignments=given
            ),
            lambda r: r.error_code == ErrorCode.UNKNOWN_MEMBER_ID,
        ),
        Row(
            5,
            m.leave_group_request.LeaveGroupRequest(group_id="other", members=leaving),
            lambda r: codes_of(r.members) == {ErrorCode.UNKNOWN_MEMBER_ID} and len(r.members) == MANY,
        ),
        Row(
            4,
            m.describe_configs_request.DescribeConfigsRequest(
                resources=[configs(resource_type=2, resource_name=name, configuration_keys=None) for name in NAMES]
            ),
            lambda r: codes_of(r.results) == {UNKNOWN} and len(r.results) == MANY,
        ),
        Row(
            1,
            alter.AlterConfigsRequest(
                resources=[alter.AlterConfigsResource(resource_type=2, resource_name=name) for name in NAMES]
            ),
            lambda r: codes_of(r.responses) == {UNKNOWN},
        ),
        Row(
            1,
            incremental.IncrementalAlterConfigsRequest(
                resources=[incremental.AlterConfigsResource(resource_type=2, resource_name=name) for name in NAMES]
            ),
            lambda r: codes_of(r.responses) == {UNKNOWN},
        ),
        Row(
            1,
            quota.AlterClientQuotasRequest(entries=[quota.EntryData()] * MANY),
            lambda r: codes_of(r.entries) == {ErrorCode.INVALID_REQUEST},
        ),
        Row(
            0,
            scram.DescribeUserScramCredentialsRequest(users=[scram.UserName(name=name) for name in [*NAMES, *NAMES]]),
            lambda r: codes_of(r.results) == {ErrorCode.DUPLICATE_RESOURCE} and len(r.results) == MANY,
        ),
    ]


def test_every_api_serves_four_thousand_items_in_turns() -> None:
    async def scenario(site: Site) -> None:
        for number, row in enumerate(rows()):
            with case(f"{row.request.API.name} (row {number})"):
                reply = await site.serve(row.request, row.version)
                assert row.check(reply) is not False, codes_of(getattr(reply, "topics", []))
                site.assert_portions()

    play(scenario)


def test_many_transactions_are_listed_in_turns() -> None:
    async def scenario(site: Site) -> None:
        for index, name in enumerate(NAMES):
            site.parts.transactions.submit(name, InitProducerId(name, 1000, None, index), lambda reply: reply)
        reply = await site.serve(messages.list_transactions_request.ListTransactionsRequest(), 1)
        assert len(reply.transaction_states) == MANY
        site.assert_portions()

    play(scenario)


def test_much_is_decoded_and_told_in_turns() -> None:
    async def scenario(site: Site) -> None:
        m = messages
        names = [m.metadata_request.MetadataRequestTopic(name=f"{name:0>30}") for name in NAMES]
        missing = m.metadata_request.MetadataRequest(topics=names, allow_auto_topic_creation=False)
        unknown = m.describe_transactions_request.DescribeTransactionsRequest(
            transactional_ids=[f"{name:0>30}" for name in NAMES]
        )
        everything = m.metadata_request.MetadataRequest(topics=None)
        for request, version in ((missing, 9), (unknown, 0), (everything, 12)):
            with case(request.API.name):
                with measured_turns() as site.turns:
                    reply = await site.parts.ask(request, version)
                told = reply.transaction_states if request is unknown else reply.topics
                assert len(told) == MANY or len(told[0].partitions) == MANY
                # the client's part, to write the request and to read the reply in one go, is in it
                assert site.turns.count >= 8, site.turns

    play(scenario)


def test_a_small_request_is_served_within_the_turn_in_which_it_came() -> None:
    async def scenario(site: Site) -> None:
        m = messages.offset_fetch_request
        asked = m.OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])
        request = m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup(group_id="g", topics=[asked])])
        assert len((await site.serve(request, 8)).groups[0].topics[0].partitions) == 2
        assert site.turns.count == 0

    play(scenario)


def test_more_changes_of_one_resource_than_there_are_keys_are_refused() -> None:
    async def scenario(site: Site) -> None:
        m, q = messages.incremental_alter_configs_request, messages.alter_client_quotas_request
        configs = [m.AlterableConfig(name=f"key-{index}", config_operation=0, value="1") for index in range(5001)]
        resource = m.AlterConfigsResource(resource_type=4, resource_name="1", configs=configs)
        reply = await site.serve(m.IncrementalAlterConfigsRequest(resources=[resource], validate_only=True), 1)
        assert codes_of(reply.responses) == {ErrorCode.INVALID_REQUEST}
        entry = q.EntryData(
            entity=[q.EntityData(entity_type="user", entity_name="u")], ops=[q.OpData(key="producer_byte_rate")] * 1001
        )
        reply = await site.serve(q.AlterClientQuotasRequest(entries=[entry], validate_only=True), 1)
        assert codes_of(reply.entries) == {ErrorCode.INVALID_REQUEST}

    play(scenario)


# Fetches


def fetch_of(indexes: list[int], **more: Any) -> Any:
    f = messages.fetch_request
    asked = [f.FetchPartition(partition=index, fetch_offset=5, partition_max_bytes=100) for index in indexes]
    head = {"replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 10_000, "session_epoch": -1, **more}
    return f.FetchRequest(topics=[f.FetchTopic(topic="t", partitions=asked)], **head)


def many_leaders(count: int) -> Any:
    return MemoryParts(*(leader(index=index, end=5) for index in range(count)))


def test_a_fetch_of_very_many_idle_partitions_waits_for_one_of_them() -> None:
    async def scenario(site: Site) -> None:
        site.parts = many_leaders(3000)
        loop = asyncio.get_running_loop()
        produce = messages.produce_request
        data = [produce.PartitionProduceData(index=2999, records=b"abc")]
        request = produce.ProduceRequest(
            acks=1, timeout_ms=1, topic_data=[produce.TopicProduceData(name="t", partition_data=data)]
        )
        for session_epoch in (-1, 0):
            idle = asyncio.ensure_future(site.parts.ask(fetch_of(list(range(3000)), session_epoch=session_epoch), 11))
            loop.call_later(0.2, lambda: asyncio.ensure_future(site.parts.ask(request, 9)))
            before_s = loop.time()
            reply = await idle
            assert loop.time() - before_s < 0.3
            assert [each.partition_index for each in partitions_of(reply.responses) if each.records] == [2999]
            assert len(partitions_of(reply.responses)) == 3000
            for partition in site.parts.replicas.partitions.values():
                partition.log.log_end_offset = 5
                partition.log.set_high_watermark(5)
        await virtual_time.settle()
        assert len(site.parts.replicas.watched) == 3000, "the session's"
        before_s = loop.time()
        await site.parts.ask(fetch_of(list(range(3000))), 11)
        assert 0.5 <= loop.time() - before_s < 0.6

    play(scenario)


def test_a_session_in_which_everything_changed_tells_it_in_several_fetches() -> None:
    async def scenario(site: Site) -> None:
        parts = many_leaders(5000)
        first = await parts.ask(fetch_of(list(range(5000)), session_epoch=0, max_wait_ms=0), 11)
        for partition in parts.replicas.partitions.values():
            partition.log.log_end_offset = 6
            partition.log.set_high_watermark(6)
            partition.notify_watchers(appended=True)
        told: list[int] = []
        for epoch in (1, 2, 3):
            more = messages.fetch_request.FetchRequest(
                replica_id=-1, max_bytes=100_000, session_id=first.session_id, session_epoch=epoch, min_bytes=1
            )
            found = partitions_of((await parts.ask(more, 11)).responses)
            told += [each.partition_index for each in found]
        assert len(told) >= 5000 and set(told) == set(range(5000))

    play(scenario)


def test_sessions_together_have_room_for_so_many_partitions() -> None:
    async def scenario(site: Site) -> None:
        parts = many_leaders(3000)
        parts.fetch_sessions._partitions_max = 5000
        everything = list(range(3000))
        first = await parts.ask(fetch_of(everything, session_epoch=0, max_wait_ms=0), 11)
        second = await parts.ask(fetch_of(everything, session_epoch=0, max_wait_ms=0), 11)
        assert first.session_id and not second.session_id and len(partitions_of(second.responses)) == 3000
        small = await parts.ask(fetch_of([0], session_epoch=0, max_wait_ms=0), 11)
        more = fetch_of(everything, session_id=small.session_id, session_epoch=1, max_wait_ms=0)
        assert (await parts.ask(more, 11)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert parts.fetch_sessions.partitions == 3000 and list(parts.fetch_sessions.sessions) == [first.session_id]

    play(scenario)
