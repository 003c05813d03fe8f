"""Keys and values of `__consumer_offsets`, byte for byte as Apache Kafka 3.9.1 wrote them, and the older and newer ones it reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.coordinators.contract import LogRecord, Now
from kafkalite.coordinators.group import group_record, offset_record
from kafkalite.coordinators.group.group import GroupState
from kafkalite.coordinators.group.group_record import NO_TIMESTAMP, StoredGroup, StoredMember
from kafkalite.coordinators.group.machine import GroupMachine
from kafkalite.coordinators.group.offset_record import CommittedOffset
from kafkalite.coordinators.group.settings import GroupSettings
from kafkalite.coordinators.group.subscription import subscribed_topics

OFFSET_KEY = "00010006676f6c64656e00017400000000"
OFFSET_VALUE = "00030000000000000005ffffffff00086e6f746520c3a900000001a1fe00d514"
GROUP_KEY = "00020006676f6c64656e"
STATIC_GROUP = (
    "00030008636f6e73756d657200000001000572616e67650029696e73742d63333039383830642d316539332d34373731"
    "2d616664392d633164393964316337326636000001a1fe00d245000000010029696e73742d63333039383830642d3165"
    "39332d343737312d616664392d6331643939643163373266360004696e737400026d65000a2f3132372e302e302e3100"
    "00ea6000001770000000170003000000010001740000000000000000ffffffff00000000001900000000000100017400"
    "000002000000000000000100000000"
)
EMPTY_GROUP = "00030008636f6e73756d657200000002ffffffff000001a1fe00d6bc00000000"
MEMBER_ID = "inst-c309880d-1e93-4771-afd9-c1d99d1c72f6"
SUBSCRIPTION = bytes.fromhex("0003000000010001740000000000000000ffffffff0000")
ASSIGNMENT = bytes.fromhex("00000000000100017400000002000000000000000100000000")


def test_an_offset_is_written_as_kafka_writes_it() -> None:
    assert offset_record.encode_key("golden", "t", 0).hex() == OFFSET_KEY
    committed = CommittedOffset(5, -1, "note é\0", 0x1A1FE00D514)  # librdkafka ends metadata with NUL
    assert offset_record.encode_value(committed, 3).hex() == OFFSET_VALUE
    assert offset_record.decode_key(bytes.fromhex(OFFSET_KEY)) == ("golden", "t", 0)
    assert offset_record.decode_value(bytes.fromhex(OFFSET_VALUE)) == committed


def test_a_group_is_written_as_kafka_writes_it() -> None:
    member = StoredMember(MEMBER_ID, "inst", "me", "/127.0.0.1", 60_000, 6000, SUBSCRIPTION, ASSIGNMENT)
    group = StoredGroup("consumer", 1, "range", MEMBER_ID, 0x1A1FE00D245, (member,))
    assert group_record.encode_key("golden").hex() == GROUP_KEY
    assert group_record.encode_value(group, 3).hex() == STATIC_GROUP
    assert group_record.decode_value(bytes.fromhex(STATIC_GROUP)) == group
    empty = StoredGroup("consumer", 2, None, None, 0x1A1FE00D6BC, ())
    assert group_record.encode_value(empty, 3).hex() == EMPTY_GROUP
    assert group_record.decode_value(bytes.fromhex(EMPTY_GROUP)) == empty


def test_a_machine_goes_on_from_a_log_that_kafka_wrote() -> None:
    machine = GroupMachine(GroupSettings())
    for offset, (key, value) in enumerate([(GROUP_KEY, STATIC_GROUP), (OFFSET_KEY, OFFSET_VALUE)]):
        machine.apply(LogRecord(offset, bytes.fromhex(key), bytes.fromhex(value)))
    machine.on_loaded(Now(0, 0))
    group = machine.groups["golden"]
    assert (group.state, group.generation, group.protocol, group.leader_id) == (
        GroupState.STABLE,
        1,
        "range",
        MEMBER_ID,
    )
    assert group.static_ids == {"inst": MEMBER_ID} and group.subscribed_topics == {"t"}
    assert group.members[MEMBER_ID].assignment == ASSIGNMENT
    assert machine.offsets_of("golden")["t"][0].offset == 5


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0000" + "0000000000000007" + "0001" + "6d" + "0000000000000009", CommittedOffset(7, -1, "m", 9)),
        (
            "0001" + "0000000000000007" + "0001" + "6d" + "0000000000000009" + "000000000000000a",
            CommittedOffset(7, -1, "m", 9, 10),
        ),
        ("0002" + "0000000000000007" + "0000" + "0000000000000009", CommittedOffset(7, -1, "", 9)),
        (
            "0004" + "0000000000000007" + "00000003" + "02" + "6d" + "0000000000000009" + "00",
            CommittedOffset(7, 3, "m", 9),
        ),
    ],
)
def test_offsets_of_other_versions_are_read(value: str, expected: CommittedOffset) -> None:
    assert offset_record.decode_value(bytes.fromhex(value)) == expected


def test_an_offset_with_its_own_expiry_is_written_in_the_version_that_has_one() -> None:
    committed = CommittedOffset(7, 3, "m", 9, 10)
    value = offset_record.encode_value(committed, 3)
    assert value[:2] == b"\0\1" and offset_record.decode_value(value) == committed._replace(leader_epoch=-1)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_groups_of_every_version_are_read(version: int) -> None:
    member = StoredMember(
        "m", "i" if version >= 3 else None, "c", "/h", 9000 if version >= 1 else 5000, 5000, b"s", b"a"
    )
    group = StoredGroup("consumer", 3, "range", "m", 77 if version >= 2 else NO_TIMESTAMP, (member,))
    assert group_record.decode_value(group_record.encode_value(group, version)) == group


def test_groups_in_flexible_encoding_are_read() -> None:
    member = "026d" + "00" + "0263" + "022f" + "00002328" + "00001388" + "0273" + "0261" + "00"
    value = "0004" + "09636f6e73756d6572" + "00000003" + "0672616e6765" + "026d" + "000000000000004d" + "02" + member
    expected = StoredMember("m", None, "c", "/", 9000, 5000, b"s", b"a")
    decoded = group_record.decode_value(bytes.fromhex(value + "00"))
    assert decoded == StoredGroup("consumer", 3, "range", "m", 77, (expected,))


@given(
    st.binary(max_size=60),
    st.none() | st.binary(max_size=80),
    st.sampled_from([b"\0\0", b"\0\1", b"\0\2", b"\0\3", b""]),
)
def test_a_record_that_cannot_be_read_does_not_stop_the_load(key: bytes, value: bytes | None, version: bytes) -> None:
    machine = GroupMachine(GroupSettings())
    machine.apply(LogRecord(0, version + key, value))
    machine.on_loaded(Now(0, 0))


def test_a_group_whose_record_is_broken_is_taken_for_empty() -> None:
    machine = GroupMachine(GroupSettings())
    machine.apply(LogRecord(0, bytes.fromhex(GROUP_KEY), bytes.fromhex(STATIC_GROUP)[:40]))
    machine.on_loaded(Now(0, 0))
    assert machine.groups["golden"].state is GroupState.EMPTY


def test_topics_of_subscriptions() -> None:
    assert subscribed_topics([SUBSCRIPTION, b"\0\1\0\0\0\1\0\1u"]) == {"t", "u"}
    assert subscribed_topics([SUBSCRIPTION, b"\0\1\0"]) is None
    assert subscribed_topics([]) == frozenset()
