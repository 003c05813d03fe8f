"""Which permissions each API needs, as `KafkaApis` asks for them: without one of them the handler hears of nothing, with all of them of
what the caller may do and of nothing else. In every version."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from kafkalite.broker.fetch.fetch_authorization import authorize_session
from kafkalite.broker.fetch.fetch_sessions import FetchItem, FetchSession
from kafkalite.broker.handlers import SERVED
from kafkalite.broker.identity.authorizer import Authorizer, Permission
from kafkalite.broker.requests.dispatch import Dispatcher
from kafkalite.errors import ErrorCode, ProtocolViolation
from kafkalite.net.frames import request_frame, response_body_position
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.security.acl import (
    AclEntry,
    Operation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
    implying,
)
from kafkalite.security.acl_index import AclIndex
from kafkalite.security.principal import KafkaPrincipal
from kafkalite.types import TopicPartition
from tests.authorization_callers import (
    BARRED,
    DENIED,
    LITERAL,
    NAMES,
    OPEN,
    OTHER,
    PREFIX,
    Case,
    names_in,
    patterns,
    refused,
)
from tests.authorization_cases import cases
from tests.unit.broker.memory_parts import FakeConnection, MemoryParts, context_of, leader

T, G, C, X = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
NEEDS: dict[str, list[set[tuple[ResourceType, Operation]]]] = {
    "PRODUCE": [{(T, WRITE)}],
    "LIST_OFFSETS": [{(T, DESCRIBE)}],
    "OFFSET_COMMIT": [{(G, READ), (T, READ)}],
    "OFFSET_FETCH": [{(G, DESCRIBE), (T, DESCRIBE)}],
    "OFFSET_DELETE": [{(G, DELETE), (T, READ)}],
    "FIND_COORDINATOR of groups": [{(G, DESCRIBE)}],
    "FIND_COORDINATOR of ids": [{(X, DESCRIBE)}],
    "JOIN_GROUP": [{(G, READ)}],
    "HEARTBEAT": [{(G, READ)}],
    "LEAVE_GROUP": [{(G, READ)}],
    "SYNC_GROUP": [{(G, READ)}],
    "DESCRIBE_GROUPS": [{(G, DESCRIBE)}],
    "DELETE_GROUPS": [{(G, DELETE)}],
    "CREATE_TOPICS": [{(T, CREATE)}, {(C, CREATE)}],
    "DELETE_TOPICS": [{(T, DELETE)}],
    "CREATE_PARTITIONS": [{(T, ALTER)}],
    "DELETE_RECORDS": [{(T, DELETE)}],
    "INIT_PRODUCER_ID": [{(C, Operation.IDEMPOTENT_WRITE)}, {(T, WRITE)}],
    f"INIT_PRODUCER_ID {OPEN}": [{(X, WRITE)}],
    "OFFSET_FOR_LEADER_EPOCH": [{(T, DESCRIBE)}, {(C, ACTION)}],
    "DESCRIBE_ACLS": [{(C, DESCRIBE)}],
    "CREATE_ACLS": [{(C, ALTER)}],
    "DELETE_ACLS": [{(C, ALTER)}],
    "DESCRIBE_CONFIGS": [{(T, Operation.DESCRIBE_CONFIGS)}],
    "ALTER_CONFIGS": [{(T, Operation.ALTER_CONFIGS)}],
    "INCREMENTAL_ALTER_CONFIGS": [{(T, Operation.ALTER_CONFIGS)}],
    "ALTER_REPLICA_LOG_DIRS": [{(C, ALTER)}],
    "ELECT_LEADERS": [{(C, ALTER)}],
    "ALTER_PARTITION_REASSIGNMENTS": [{(C, ALTER)}],
    "LIST_PARTITION_REASSIGNMENTS": [{(C, DESCRIBE)}],
    "DESCRIBE_CLIENT_QUOTAS": [{(C, Operation.DESCRIBE_CONFIGS)}],
    "ALTER_CLIENT_QUOTAS": [{(C, Operation.ALTER_CONFIGS)}],
    "DESCRIBE_USER_SCRAM_CREDENTIALS": [{(C, DESCRIBE)}],
    "ALTER_USER_SCRAM_CREDENTIALS": [{(C, ALTER)}],
    "UPDATE_FEATURES": [{(C, ALTER)}],
    "DESCRIBE_PRODUCERS": [{(T, READ)}],
    "DESCRIBE_TRANSACTIONS": [{(X, DESCRIBE)}],
    "ADD_OFFSETS_TO_TXN": [{(X, WRITE), (G, READ)}],
    "END_TXN": [{(X, WRITE)}],
    "TXN_OFFSET_COMMIT": [{(X, WRITE), (G, READ), (T, READ)}],
    "ADD_PARTITIONS_TO_TXN": [{(C, ACTION)}],
    "WRITE_TXN_MARKERS": [{(C, ACTION)}, {(C, ALTER)}],
    "ALLOCATE_PRODUCER_IDS": [{(C, ACTION)}],
    "ALTER_PARTITION": [{(C, ACTION)}],
    "CONTROLLED_SHUTDOWN": [{(C, ACTION)}],
    "STOP_REPLICA": [{(C, ACTION)}],
    "LEADER_AND_ISR": [{(C, ACTION)}],
    "UPDATE_METADATA": [{(C, ACTION)}],
}
"""What a request needs to be carried out for `OPEN`; several where one of them is enough."""

ALL_PERMISSIONS = [
    (type_, operation)
    for type_ in (T, G, C, X)
    for operation in Operation
    if operation not in (Operation.ANY, Operation.ALL)
]


class Judge:
    """An authorizer with some permissions, of what begins with `m-` but not of `m-denied`."""

    def __init__(self, permissions: Iterable[tuple[ResourceType, Operation]]) -> None:
        self.generation, self.index = 0, AclIndex()
        for type_, operation in permissions:
            entry = AclEntry("User:*", "*", operation, PermissionType.ALLOW)
            for pattern, how in patterns(type_):
                self.index.replace(pattern, [*self.index.entries(pattern), entry._replace(permission=how)])

    def allows(self, principal: KafkaPrincipal, host: str, permission: Permission, name: str) -> bool:
        return self.index.allows(str(principal), host, permission.operation, permission.resource, name)

    def allows_some(self, principal: KafkaPrincipal, host: str, permission: Permission) -> bool:
        return self.index.allows_some(str(principal), host, permission.operation, permission.resource)


def of_open(case: Case) -> bool:
    return case.name in ("", OPEN, "of groups", "of ids")


def needs(case: Case) -> list[set[tuple[ResourceType, Operation]]]:
    return NEEDS.get(str(case)) or NEEDS[case.key.name]


MATRIX = [each for each in cases() if (each.key.name in NEEDS or str(each) in NEEDS) and of_open(each)]


def asked(case: Case, version: int, authorizer: Authorizer) -> tuple[list[Any], Any]:
    """(the requests that reached the handler, the answer), the handler answering that all went well."""
    (served,) = [each for each in SERVED if each.api.key == case.key]
    reached: list[Any] = []

    def handle(parts: Any, request: Any, context: Any) -> Any:
        reached.append(request)
        if getattr(request, "acks", 1) == 0:
            return None
        return served.failure(request, ErrorCode.NONE, None)

    parts = MemoryParts(leader(OPEN))
    dispatcher = Dispatcher(parts, [replace(served, handle=handle)], authorizer)  # type: ignore[arg-type]
    api = served.api
    frame = b"".join(request_frame(api, version, 7, "me", codec.encode_request(case.request, version)))

    async def life() -> Any:
        answer = dispatcher.handle(memoryview(bytearray(frame))[4:], FakeConnection())
        return await answer if isinstance(answer, asyncio.Future) else answer

    body = b"".join(asyncio.run(life()))[4:]
    return reached, codec.decode_response(api.key, version, body, response_body_position(api, version, body))


def test_the_matrix_has_every_api_that_needs_a_permission() -> None:
    """A new API needs a row, or a test of its own as Fetch, Metadata and what only filters its answer; private APIs have their own."""
    elsewhere = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_LOG_DIRS}
    by_the_handler = {
        ApiKey.FETCH,
        ApiKey.METADATA,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    }
    for_everybody = {
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.ENVELOPE,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
    }
    served = [each for each in SERVED if not each.api.is_private]
    guarded = {each.api.key for each in served if each.guard is not None or each.cluster_permission is not None}
    assert guarded == {each.key for each in MATRIX} | elsewhere
    assert {each.api.key for each in served} - guarded == by_the_handler | for_everybody


@pytest.mark.parametrize("case", MATRIX, ids=str)
def test_who_lacks_one_permission_is_refused(case: Case) -> None:
    (served,) = [each for each in SERVED if each.api.key == case.key]
    for version in range(case.first, min(case.last, served.last_version) + 1):
        for enough in needs(case):
            reached, answer = asked(case, version, Judge(enough))
            assert len(reached) == 1, f"version {version} with {enough}"
            assert not names_in(reached[0]) & {DENIED, OTHER, BARRED} or C in dict(enough), (
                "what may not be done is taken out"
            )
            is_named = names_in(case.request) == set(NAMES)
            assert bool(refused(answer)) is (is_named and C not in dict(enough))
            assert not [each for each in refused(answer) if each.startswith(f"{OPEN} ")]
            for missing in enough:
                reached, answer = asked(case, version, Judge(enough - {missing}))
                assert not any(names_in(each) & {OPEN} for each in reached) or case.key in (
                    ApiKey.OFFSET_DELETE,
                    ApiKey.OFFSET_FETCH,  # whose group has the same name
                )
                assert refused(answer)


@pytest.mark.parametrize("case", MATRIX, ids=str)
def test_no_other_permission_helps(case: Case) -> None:
    """But those that imply one."""
    (served,) = [each for each in SERVED if each.api.key == case.key]
    helping = {(type_, each) for enough in needs(case) for type_, operation in enough for each in implying(operation)}
    useless = [each for each in ALL_PERMISSIONS if each not in helping]
    reached, answer = asked(case, min(case.last, served.last_version), Judge(useless))
    assert not any(names_in(each) & {OPEN} for each in reached) and refused(answer)


def test_a_record_within_a_transaction_needs_its_id_first() -> None:
    p = messages.produce_request
    batch = bytearray(bytes(16) + b"\x02" + bytes(4) + b"\x00\x10" + bytes(44))
    batch[8:12] = (55).to_bytes(4, "big")
    topic = p.TopicProduceData(name=OPEN, partition_data=[p.PartitionProduceData(index=0, records=batch)])
    request = p.ProduceRequest(transactional_id=OPEN, acks=1, timeout_ms=1, topic_data=[topic])
    case = Case(ApiKey.PRODUCE, request)
    reached, answer = asked(case, 9, Judge([(T, WRITE)]))
    assert not reached and refused(answer) == [f"{OPEN} TRANSACTIONAL_ID_AUTHORIZATION_FAILED"]
    assert len(asked(case, 9, Judge([(T, WRITE), (X, WRITE)]))[0]) == 1
    anonymous = Case(ApiKey.PRODUCE, p.ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]))
    assert not asked(anonymous, 9, Judge([(T, WRITE), (X, WRITE)]))[0], "records within a transaction without an id"


def test_what_is_refused_of_an_unacknowledged_produce_closes_the_connection() -> None:
    """What may be written is."""
    (case,) = [each for each in MATRIX if each.key is ApiKey.PRODUCE]
    unacknowledged = messages.produce_request.ProduceRequest(
        acks=0,
        timeout_ms=1000,
        topic_data=case.request.topic_data,  # type: ignore[attr-defined]
    )
    with pytest.raises(ProtocolViolation, match="TOPIC_AUTHORIZATION_FAILED"):
        asked(Case(ApiKey.PRODUCE, unacknowledged), 9, Judge([(T, WRITE)]))


def metadata_of(authorizer: Authorizer, version: int = 12, **fields: Any) -> Any:
    m = messages.metadata_request
    names = fields.pop("names", None)
    topics = None if names is None else [m.MetadataRequestTopic(name=each) for each in names]
    parts = MemoryParts(leader(OPEN), leader(DENIED), leader(OTHER))
    request = m.MetadataRequest(topics=topics, allow_auto_topic_creation=True, **fields)
    return asyncio.run(parts.ask(request, version, authorizer)), parts


def test_metadata_has_no_name_that_the_caller_may_not_see() -> None:
    everything, _ = metadata_of(Judge([(T, DESCRIBE)]))
    assert [each.name for each in everything.topics] == [OPEN]
    named, parts = metadata_of(Judge([(T, DESCRIBE)]), names=[OPEN, DENIED, "absent"])
    by_name = {each.name: each for each in named.topics}
    assert {each.error_code for each in (by_name[DENIED], by_name["absent"])} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert not by_name[DENIED].partitions and not parts.topic_creation.created


@pytest.mark.parametrize(
    ("permissions", "created"),
    [([(T, DESCRIBE)], []), ([(T, READ), (T, CREATE)], ["m-new"]), ([(T, ALTER), (C, CREATE)], ["m-new"])],
)
def test_topics_are_made_for_those_who_may(
    permissions: list[tuple[ResourceType, Operation]], created: list[str]
) -> None:
    answer, parts = metadata_of(Judge(permissions), names=["m-new"])
    assert parts.topic_creation.created == created
    assert answer.topics[0].error_code == (
        ErrorCode.LEADER_NOT_AVAILABLE if created else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )


def test_what_may_be_done_is_told_to_those_who_ask() -> None:
    """KIP-430: each operation a bit."""
    answer, _ = metadata_of(
        Judge([(T, READ), (C, DESCRIBE)]),
        version=9,
        names=[OPEN],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    assert answer.topics[0].topic_authorized_operations == 1 << READ | 1 << DESCRIBE
    assert answer.cluster_authorized_operations == 1 << DESCRIBE
    answer, _ = metadata_of(Judge([(T, READ)]), version=9, names=[OPEN], include_cluster_authorized_operations=True)
    assert (answer.topics[0].topic_authorized_operations, answer.cluster_authorized_operations) == (-(2**31), 0)


class Session:
    """A fetch session of the three topics, judged as fetches of it come."""

    def __init__(self) -> None:
        self.session = FetchSession(1, False, False, 0.0)
        self.session.update(
            [FetchItem(each, each, bytes(16), 0, 1000) for each in (TopicPartition(name, 0) for name in NAMES)]
        )

    def denied(self, authorizer: Any, replica_id: int = -1) -> set[str]:
        context = context_of(11, authorizer=authorizer)
        authorize_session(self.session, replica_id >= 0, context)
        return {each.topic_partition.topic for each in self.session.items.values() if each.is_denied}


def test_a_fetch_session_obeys_acls_that_change() -> None:
    session, judge = Session(), Judge([(T, READ)])
    assert session.denied(judge) == {DENIED, OTHER, BARRED}
    session.session.ready.clear()
    judge.index.replace(ResourcePattern(T, PREFIX, PatternType.PREFIXED), [])
    assert session.denied(judge) == {DENIED, OTHER, BARRED}, "nothing says that something changed"
    judge.generation += 1
    assert session.denied(judge) == set(NAMES) - {LITERAL}
    assert [each.topic for each in session.session.ready] == [OPEN], "who is denied now is told so in the next fetch"


def test_a_consumer_that_calls_itself_a_follower_reads_nothing() -> None:
    """CVE-2018-1288: a fetch that names a replica needs CLUSTER_ACTION, also within a session that began as a consumer's."""
    session, judge = Session(), Judge([(T, READ)])
    assert OPEN not in session.denied(judge)
    assert session.denied(judge, replica_id=2) == set(NAMES)
    broker = Judge([(C, ACTION)])
    broker.generation = 1
    assert session.denied(broker, replica_id=2) == set()
    parts = MemoryParts(leader(OPEN))
    f = messages.fetch_request
    topic = f.FetchTopic(topic=OPEN, partitions=[f.FetchPartition(partition=0, partition_max_bytes=1000)])
    request = f.FetchRequest(replica_id=2, max_wait_ms=0, max_bytes=1000, session_epoch=-1, topics=[topic])
    answer = asyncio.run(parts.ask(request, 11, judge))
    assert refused(answer) == [f"{OPEN} TOPIC_AUTHORIZATION_FAILED"]
    assert not parts.proposed
