"""Subscriptions and assignments: Java's bytes, all versions, and bytes that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.client.group.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_generation,
    decode_sticky_data,
    decode_subscription,
    encode_assignment,
    encode_generation,
    encode_sticky_data,
    encode_subscription,
)
from kafkalite.types import TopicPartition
from tests.unit.client.java_vectors import parse_member, parse_partitions, recorded

OWNED = (TopicPartition("t", 0), TopicPartition("t", 3), TopicPartition("ü", 1))


def test_the_bytes_are_javas() -> None:
    cases = recorded("encodings")
    assert len(cases) == 60
    for question, java in cases:
        kind, version, what, *data = question.split(" ")
        if kind == "subscription":
            ours = encode_subscription(parse_member(what)[1], int(version))
            assert set(decode_subscription(bytes.fromhex(java)).topics) == set(parse_member(what)[1].topics)
        else:
            user_data = None if data[0] == "-" else bytes.fromhex(data[0])
            ours = encode_assignment(Assignment(parse_partitions(what), user_data), int(version))
        assert sorted(ours) == sorted(bytes.fromhex(java)), question  # Java sorts topics by a hash of its own
        if question.count(":") < 2 and what.count(",") < 1:
            assert ours.hex() == java, question


@pytest.mark.parametrize("version", range(4))
def test_what_a_version_has_comes_back(version: int) -> None:
    whole = Subscription(("a", "b"), b"data", OWNED, 7, "rack")
    found = decode_subscription(encode_subscription(whole, version), "me")
    assert (found.topics, found.user_data, found.group_instance_id) == (whole.topics, whole.user_data, "me")
    assert found.owned_partitions == (OWNED if version >= 1 else ())
    assert found.generation_id == (7 if version >= 2 else -1)
    assert found.rack_id == ("rack" if version >= 3 else None)
    assert decode_assignment(encode_assignment(Assignment(OWNED, None), version)) == Assignment(OWNED, None)


def test_newer_versions_are_read_as_the_newest_known() -> None:
    newer = b"\0\x09" + encode_subscription(Subscription(("t",), None, OWNED, 3, None))[2:] + b"more"
    assert decode_subscription(newer).owned_partitions == OWNED


def test_no_bytes_are_an_empty_assignment() -> None:
    assert decode_assignment(b"") == Assignment(())


def test_user_data_of_sticky_assignors() -> None:
    assert decode_sticky_data(encode_sticky_data(OWNED, 5)) == (OWNED, 5)
    assert decode_sticky_data(encode_sticky_data(OWNED, 5)[:-4]) == (OWNED, None)
    assert decode_generation(encode_generation(9)) == 9


def test_versions_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match="version 4"):
        encode_subscription(Subscription(()), 4)
    with pytest.raises(ValueError, match="version -1"):
        decode_assignment(b"\xff\xff")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment, decode_sticky_data):
        try:
            decode(data)
        except ValueError:
            pass
