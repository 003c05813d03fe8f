"""Znodes byte for byte as Apache Kafka 3.9 writes them, and tolerantly read."""

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zk import paths
from zk.znodes import (
    BrokerRegistration,
    ClusterId,
    ConfigChange,
    ConfigEntity,
    ControllerEpoch,
    ControllerSeat,
    Feature,
    FeatureRange,
    FeatureStatus,
    IsrChange,
    LogDirEvent,
    MalformedZnodeError,
    PartitionName,
    PartitionState,
    PreferredElection,
    ProducerIdBlock,
    ReassignPartitions,
    RegisteredEndpoint,
    TopicAssignment,
)

WRITTEN_BY_KAFKA = [
    (
        BrokerRegistration((RegisteredEndpoint("PLAINTEXT", "h", 9092),), timestamp_ms=1700000000000, rack="r1"),
        '{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://h:9092"],'
        '"rack":"r1","jmx_port":-1,"port":9092,"host":"h","version":5,"timestamp":"1700000000000"}',
    ),
    (
        BrokerRegistration(
            (RegisteredEndpoint("OUT", "::1", 1, "SASL_SSL"), RegisteredEndpoint("IN", "b", 2, "PLAINTEXT")),
            timestamp_ms=5,
            features={"f": FeatureRange(1, 2)},
        ),
        '{"features":{"f":{"min_version":1,"max_version":2}},'
        '"listener_security_protocol_map":{"OUT":"SASL_SSL","IN":"PLAINTEXT"},"endpoints":["OUT://[::1]:1","IN://b:2"],'
        '"jmx_port":-1,"port":2,"host":"b","version":5,"timestamp":"5"}',
    ),
    (
        BrokerRegistration((RegisteredEndpoint("SSL", "h", 9093, "SSL"),), timestamp_ms=5),
        '{"features":{},"listener_security_protocol_map":{"SSL":"SSL"},"endpoints":["SSL://h:9093"],'
        '"jmx_port":-1,"port":-1,"host":null,"version":5,"timestamp":"5"}',
    ),
    (
        ControllerSeat(1, 1700000000000),
        '{"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}',
    ),
    (ControllerEpoch(7), "7"),
    (
        TopicAssignment({0: (1, 2), 1: (2, 1)}, "k1NfV0J9Q5u1pQe0a0n3Wg", {0: (3,), 1: ()}, {0: (1,)}),
        '{"partitions":{"0":[1,2],"1":[2,1]},"topic_id":"k1NfV0J9Q5u1pQe0a0n3Wg",'
        '"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]},"version":3}',
    ),
    (
        TopicAssignment({0: (1,)}),
        '{"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{},"version":3}',
    ),
    (
        PartitionState(leader=1, leader_epoch=5, isr=(1, 2), controller_epoch=3),
        '{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":5,"isr":[1,2]}',
    ),
    (
        PartitionState(leader=1, leader_epoch=5, isr=(1,), controller_epoch=3, recovering=True),
        '{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":5,"isr":[1],"leader_recovery_state":1}',
    ),
    (ConfigEntity({"retention.ms": "1000"}), '{"version":1,"config":{"retention.ms":"1000"}}'),
    (ConfigEntity(), '{"version":1,"config":{}}'),
    (ConfigChange("topics/foo"), '{"version":2,"entity_path":"topics/foo"}'),
    (
        ReassignPartitions({PartitionName("t", 0): (1, 2)}),
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}',
    ),
    (
        PreferredElection((PartitionName("t", 0),)),
        '{"version":1,"partitions":[{"topic":"t","partition":0}]}',
    ),
    (IsrChange((PartitionName("t", 0),)), '{"version":1,"partitions":[{"topic":"t","partition":0}]}'),
    (LogDirEvent(1), '{"version":1,"broker":1,"event":1}'),
    (ProducerIdBlock(1, 0, 999), '{"version":1,"broker":1,"block_start":"0","block_end":"999"}'),
    (Feature(), '{"features":{},"version":2,"status":1}'),
    (
        Feature(FeatureStatus.DISABLED, {"f": 3}),
        '{"features":{"f":{"max_version_level":3}},"version":2,"status":0}',
    ),
    (ClusterId("Xy3AAAAAAAAAAAAAAAAAAA"), '{"version":"1","id":"Xy3AAAAAAAAAAAAAAAAAAA"}'),
]
READABLE = [(type(znode), text) for znode, text in WRITTEN_BY_KAFKA if text.startswith("{")]


def _without_empty_lists(znode):
    if isinstance(znode, TopicAssignment):
        return TopicAssignment(znode.partitions, znode.topic_id, {0: (3,)} if znode.adding else {}, znode.removing)
    return znode


@pytest.mark.parametrize(("znode", "text"), WRITTEN_BY_KAFKA)
def test_written_as_kafka_does_and_read_back(znode, text):
    assert znode.encode() == text.encode()
    assert type(znode).decode(text.encode()) == _without_empty_lists(znode)


@pytest.mark.parametrize(("kind", "text"), READABLE)
def test_order_whitespace_and_unknown_keys_do_not_matter(kind, text):
    document = {"unknown": [None], **dict(reversed(json.loads(text).items()))}
    assert kind.decode(json.dumps(document, indent=3).encode()) == kind.decode(text.encode())


def test_a_partition_state_in_the_usual_form_is_read_as_in_any_other():
    """What is read by a pattern is what `json` reads."""
    numbers = ["-1", "0", "-0", "01", "-2", "2147483647", "2147483648", "1.0", "1e1", "true", '"1"', " 1"]
    lists = ["1", "1,2", "", "01", "1,", "-1", "1, 2", "999999999", "2147483648"]
    ends = ["}", ',"leader_recovery_state":1}', ',"leader_recovery_state":2}', "}\n", "}}"]
    for leader, isr, end in product(numbers, lists, ends):
        text = f'"controller_epoch":5,"leader":{leader},"version":1,"leader_epoch":3,"isr":[{isr}]{end}'
        try:
            expected = PartitionState.decode(f"{{ {text}".encode())
        except MalformedZnodeError:
            with pytest.raises(MalformedZnodeError):
                PartitionState.decode(f"{{{text}".encode())
        else:
            assert PartitionState.decode(f"{{{text}".encode()) == expected


@pytest.mark.parametrize(("kind", "text"), READABLE)
@pytest.mark.parametrize("garbage", [b"nonsense", b"[]", b"\xff\xfe", b'{"version":', b"1", b"[" * 100_000])
def test_garbage_is_said(kind, text, garbage):
    with pytest.raises(MalformedZnodeError, match=r"malformed .* znode: not"):
        kind.decode(garbage)


@given(st.sampled_from(READABLE), st.data())
def test_wrong_types_never_raise_anything_else(readable, data):
    kind, text = readable
    document = json.loads(text)
    key = data.draw(st.sampled_from(sorted(document)))
    document[key] = data.draw(st.sampled_from([None, 1, -5, "x", [], [1], ["x"], {}, {"a": 1}, {"1": 2}, True, 1.5]))
    try:
        kind.decode(json.dumps(document).encode()).encode()
    except MalformedZnodeError as error:
        assert str(error).startswith("malformed ")


def test_errors_name_kind_and_key():
    with pytest.raises(MalformedZnodeError, match="malformed partition state znode: leader is 'x', not an integer"):
        PartitionState.decode(b'{"leader":"x","leader_epoch":1,"isr":[],"controller_epoch":1}')
    with pytest.raises(ValueError, match="isr is None, not a list"):
        PartitionState.decode(b'{"leader":1,"leader_epoch":1,"controller_epoch":1}')


@pytest.mark.parametrize(
    "text",
    [
        '{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1"}',
        '{"version":2,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://h:9092"]}',
        '{"version":3,"host":"h","port":9092,"jmx_port":-1,"endpoints":["PLAINTEXT://h:9092"],"timestamp":1,"rack":null}',
        '{"version":4,"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://h:9092"],'
        '"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"host":"h","port":9092}',
    ],
)
def test_registrations_of_older_brokers(text):
    expected = BrokerRegistration((RegisteredEndpoint("PLAINTEXT", "h", 9092),), timestamp_ms=1)
    assert BrokerRegistration.decode(text.encode()) == expected


@pytest.mark.parametrize("uri", ["h:9092", "A://h", "A://h:x", "A://[::1:5"])
def test_endpoint_that_is_none(uri):
    with pytest.raises(MalformedZnodeError, match="is not LISTENER://host:port"):
        BrokerRegistration.decode(json.dumps({"version": 5, "endpoints": [uri]}).encode())


def test_controller_of_older_brokers():
    assert ControllerSeat.decode(b'{"version":1,"brokerid":4,"timestamp":"9"}') == ControllerSeat(4, 9)


def test_epoch_that_is_no_number():
    with pytest.raises(MalformedZnodeError, match="controller epoch"):
        ControllerEpoch.decode(b"x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"version":1,"partitions":{"0":[1]}}', TopicAssignment({0: (1,)})),
        ('{"version":2,"partitions":{},"adding_replicas":{"0":[]}}', TopicAssignment({})),
        ('{"version":3}', TopicAssignment({})),
    ],
)
def test_topics_of_older_tools(text, expected):
    assert TopicAssignment.decode(text.encode()) == expected


def test_config_change_of_older_tools():
    change = ConfigChange.decode(b'{"version":1,"entity_type":"clients","entity_name":"a%20b"}')
    assert (change.entity_type, change.entity_name) == ("clients", "a%20b")
    assert ConfigChange("brokers/<default>").entity_name == "<default>"
    assert ConfigChange("users/u/clients/c").entity_name == "u/clients/c"


@pytest.mark.parametrize(
    "text",
    [
        '{"version":3,"entity_path":"topics/t"}',
        '{"version":1,"entity_type":"brokers","entity_name":"1"}',
        '{"version":2,"entity_path":"topics"}',
        '{"version":2,"entity_path":"topics/"}',
    ],
)
def test_config_changes_that_are_none(text):
    with pytest.raises(MalformedZnodeError):
        ConfigChange.decode(text.encode())


def test_no_data_means_nothing_yet():
    assert ProducerIdBlock.decode(b"") is None
    assert ConfigEntity.decode(b"") == ConfigEntity()


def test_feature_of_version_1():
    text = b'{"version":1,"status":1,"features":{"f":{"min_version_level":1,"max_version_level":2}}}'
    assert Feature.decode(text) == Feature(features={"f": 2})


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (PartitionState, b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[]}'),
        (PartitionState, b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":9223372036854775808,"isr":[1]}'),
        (PartitionState, b'{"controller_epoch":1,"leader":-2,"version":1,"leader_epoch":0,"isr":[1]}'),
        (PartitionState, b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[4294967296]}'),
        (TopicAssignment, b'{"version":1,"partitions":{"0":[-1]}}'),
        (TopicAssignment, b'{"version":1,"partitions":{"99999999999":[1]}}'),
        (TopicAssignment, b'{"version":3,"partitions":{},"topic_id":"\\ud800"}'),
        (ProducerIdBlock, b'{"version":1,"broker":1,"block_start":"-1005","block_end":"-6"}'),
        (ProducerIdBlock, b'{"version":1,"broker":1,"block_start":"1","block_end":"9223372036854775808"}'),
        (ControllerEpoch, b"-1"),
        (ControllerEpoch, b"2147483647"),
        (ControllerEpoch, b"9" * 5000),
        (ConfigChange, b'{"version":2,"entity_path":"topics/../x"}'),
        (ConfigChange, b'{"version":2,"entity_path":"topics/a\\u0000b"}'),
        (BrokerRegistration, b'{"version":5,"endpoints":["PLAINTEXT://h:65536"]}'),
        (BrokerRegistration, b'{"version":5,"endpoints":["NONSENSE://h:1"]}'),
        (ClusterId, b'{"version":"1","id":""}'),
    ],
)
def test_what_fits_into_no_message_was_read(kind: Any, data: bytes) -> None:
    """And broke what was sent to the brokers later, or the controller by its invariants."""
    with pytest.raises(MalformedZnodeError) as caught:
        kind.decode(data)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(("name", "number"), [("7", 7), ("07", None), ("٣", None), ("2147483648", None), ("-1", None)])
def test_the_names_of_brokers(name: str, number: int | None) -> None:
    assert paths.broker_id(name) == number
