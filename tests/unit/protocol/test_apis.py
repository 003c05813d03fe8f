"""The table of APIs, header versions, and which versions brokers send to each other."""

from __future__ import annotations

import itertools

import pytest

from kafkalite.broker.handlers import SERVED
from kafkalite.protocol.apis import APIS, KAFKA_APIS, Api, ApiKey, request_header_version, response_header_version
from kafkalite.protocol.inter_broker import InterBrokerVersions, ProtocolVersion
from kafkalite.protocol.schemas.legacy_tables import LEGACY_TABLES
from kafkalite.protocol.schemas.private_tables import PRIVATE_TABLES
from kafkalite.protocol.schemas.schema_notation import read_schemas
from tests.peers.old_requests import FETCHES, at_the_end, of_controller, of_coordinator, of_leader, of_zookeeper

DIRECTIONS = ("request", "response")
RANGES_OF_3_9 = {
    ApiKey.FETCH: (17, 12),
    ApiKey.LIST_OFFSETS: (9, 6),
    ApiKey.LEADER_AND_ISR: (7, 4),
    ApiKey.STOP_REPLICA: (4, 2),
    ApiKey.UPDATE_METADATA: (8, 6),
    ApiKey.CONTROLLED_SHUTDOWN: (3, 3),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (4, 4),
    ApiKey.ALTER_PARTITION: (3, 0),
    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0),
}
"""Highest version and first flexible one, as the specification of the control requests has them."""


def test_every_key_has_one_row() -> None:
    assert [api.key for api in APIS.values()] == list(ApiKey)
    assert all(number == api.key for number, api in APIS.items())


def test_private_apis_are_those_above_all_keys_of_apache_kafka() -> None:
    between_brokers = [ApiKey.PEER_HEARTBEAT, ApiKey.METADATA_DIGESTS, ApiKey.COPY_RECORDS]
    assert [api.key for api in APIS.values() if api.is_private] == [*between_brokers, ApiKey.DIGEST_RECORDS]
    assert [api.key for api in APIS.values() if api.is_for_brokers] == between_brokers
    assert APIS.keys() - KAFKA_APIS.keys() == {20_000, 20_001, 20_002, 21_000} and max(KAFKA_APIS) < 100
    declared = {f"{api.name}_{direction}" for api in APIS.values() if api.is_private for direction in DIRECTIONS}
    assert declared == set(PRIVATE_TABLES)


@pytest.mark.parametrize("key", RANGES_OF_3_9, ids=lambda key: key.name)
def test_versions_between_brokers_are_those_of_3_9(key: ApiKey) -> None:
    assert (APIS[key].max_version, APIS[key].flexible_from) == RANGES_OF_3_9[key]


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_shapes_are_versions_of_the_api_newest_first(api: Api) -> None:
    assert list(api.shapes) == sorted(api.shapes, reverse=True)
    assert not api.shapes or api.shapes[0] == api.max_version
    assert all(api.min_version <= version <= api.max_version for version in api.shapes)


def test_what_kafka_4_dropped_is_declared_and_never_asked() -> None:
    dropped = {name: read_schemas(text) for name, text in LEGACY_TABLES.items()}
    assert set(dropped) == {
        f"{api.name}_{direction}" for api in APIS.values() if api.kept_from for direction in ("request", "response")
    }
    for api in APIS.values():
        if api.kept_from:
            for direction in ("request", "response"):
                declared = dropped[f"{api.name}_{direction}"]
                assert (declared.first, declared.last) == (api.min_version, api.kept_from - 1), api.name


def test_each_version_that_kafka_4_dropped_is_compared_with_apache_kafkas_byte_for_byte() -> None:
    """`tests/peers` asks both with every one of these rows, and with all of Fetch on the same log directory (`test_old_messages`)."""
    rows = itertools.chain(of_controller(), of_leader(), of_zookeeper(), of_coordinator(), at_the_end())
    asked = {(row.key, row.version) for row in rows} | {(ApiKey.FETCH, version) for version in FETCHES}
    served = {
        (each.api.key, version) for each in SERVED for version in range(each.first_version, each.last_version + 1)
    }
    assert {each for each in asked if is_dropped(*each)} == {each for each in served if is_dropped(*each)}


def is_dropped(key: ApiKey, version: int) -> bool:
    return version < APIS[key].kept_from


def test_headers() -> None:
    produce, versions = APIS[ApiKey.PRODUCE], APIS[ApiKey.API_VERSIONS]
    assert [request_header_version(produce, version) for version in (8, 9)] == [1, 2]
    assert [response_header_version(produce, version) for version in (8, 9)] == [0, 1]
    assert [request_header_version(versions, version) for version in (2, 3)] == [1, 2]
    assert [response_header_version(versions, version) for version in (2, 3)] == [0, 0]
    shutdown = APIS[ApiKey.CONTROLLED_SHUTDOWN]
    assert [request_header_version(shutdown, version) for version in range(4)] == [0, 1, 1, 2]


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("1.1", (1, 4, 0, 7, 0, 2, 0)),
        ("1.1-IV0", (1, 4, 0, 7, 0, 2, 0)),
        ("2.0-IV0", (1, 4, 0, 7, 1, 2, 0)),
        ("2.0", (1, 4, 0, 8, 1, 3, 0)),
        ("2.1-IV0", (1, 4, 0, 8, 1, 3, 0)),
        ("2.1-IV1", (1, 4, 0, 8, 2, 4, 0)),
        ("2.1", (1, 4, 0, 10, 2, 4, 0)),
        ("2.2-IV0", (2, 5, 1, 10, 2, 4, 0)),
        ("2.2", (2, 5, 1, 10, 2, 5, 0)),
        ("2.3-IV0", (2, 5, 1, 10, 2, 5, 0)),
        ("2.3", (2, 5, 1, 11, 3, 5, 0)),
        ("2.4-IV0", (3, 5, 1, 11, 3, 5, 0)),
        ("2.4", (4, 6, 2, 11, 3, 5, 0)),
        ("2.4-IV1", (4, 6, 2, 11, 3, 5, 0)),
        ("2.5", (4, 6, 2, 11, 3, 5, 0)),
        ("2.6", (4, 6, 3, 11, 3, 5, 0)),
        ("2.7-IV0", (4, 6, 3, 11, 3, 5, 0)),
        ("2.7-IV1", (4, 6, 3, 12, 3, 5, 0)),
        ("2.8-IV0", (4, 6, 3, 12, 4, 6, 1)),
        ("2.8", (5, 7, 3, 12, 4, 6, 1)),
        ("3.0", (5, 7, 3, 12, 4, 7, 1)),
        ("3.1-IV0", (5, 7, 3, 13, 4, 7, 1)),
        ("3.3", (6, 7, 3, 13, 4, 7, 1)),
        ("3.4", (7, 8, 4, 13, 4, 7, 1)),
        ("3.5-IV0", (7, 8, 4, 14, 4, 8, 1)),
        ("3.6", (7, 8, 4, 15, 4, 8, 1)),
        ("3.7", (7, 8, 4, 16, 4, 8, 1)),
        ("3.9", (7, 8, 4, 17, 4, 9, 1)),
        ("3.9.1", (7, 8, 4, 17, 4, 9, 1)),
    ],
)
def test_versions_for_an_inter_broker_protocol_version(text: str, versions: tuple[int, ...]) -> None:
    assert ProtocolVersion.parse(text).requests == InterBrokerVersions(*versions)


def test_followers_are_fenced_where_the_leader_can_though_the_setting_is_older() -> None:
    old = ProtocolVersion.parse("2.1-IV1").requests
    spoken = {ApiKey.FETCH: (0, 17), ApiKey.OFFSET_FOR_LEADER_EPOCH: (0, 4), ApiKey.LIST_OFFSETS: (0, 9)}
    assert not old.fence_followers
    assert old.raised_to_fence(spoken) == ProtocolVersion.parse("2.1-IV2").requests
    for key, version in ((ApiKey.FETCH, 8), (ApiKey.OFFSET_FOR_LEADER_EPOCH, 1), (ApiKey.LIST_OFFSETS, 3)):
        assert old.raised_to_fence({**spoken, key: (0, version)}) == old
    assert old.raised_to_fence({}) == old
    new = ProtocolVersion.parse("3.9").requests
    assert new.raised_to_fence(spoken) == new


def test_no_version_is_newer_than_the_codec_or_goes_back() -> None:
    keys = (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA)
    keys += (ApiKey.FETCH, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.LIST_OFFSETS, ApiKey.WRITE_TXN_MARKERS)
    rows = [
        ProtocolVersion.parse(text).requests for text in ("1.1", "2.0", "2.1", "2.2", "2.4", "2.8", "3.0", "3.4", "3.9")
    ]
    for older, newer in itertools.pairwise(rows):
        assert all(a <= b for a, b in zip(older, newer, strict=True))
    assert tuple(rows[-1]) == tuple(APIS[key].max_version for key in keys)


@pytest.mark.parametrize("text", ["", "three", "3", "3.x", "3.9-IVx"])
def test_what_is_no_version_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="has no form like"):
        ProtocolVersion.parse(text)


def test_what_older_protocols_do_without() -> None:
    def gates(text: str) -> tuple[bool, ...]:
        version = ProtocolVersion.parse(text)
        return (
            version.has_prefixed_acls,
            version.manages_features,
            version.alters_partitions,
            version.gives_topic_ids,
            version.allocates_producer_ids,
            version.marks_recovering_leaders,
        )

    assert gates("1.1") == gates("2.0-IV0") == (False,) * 6
    assert gates("2.0") == gates("2.6") == (True, *(False,) * 5)
    assert gates("2.7-IV1") == (True, True, False, False, False, False)
    assert gates("2.7-IV2") == (True, True, True, False, False, False)
    assert gates("2.8") == (True, True, True, True, False, False)
    assert gates("3.0-IV0") == (True, True, True, True, True, False)
    assert gates("3.2") == gates("3.9") == (True,) * 6
