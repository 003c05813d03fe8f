"""Values that Java gives."""

from __future__ import annotations

from kafkalite.config.topic import TOPIC_KEYS
from kafkalite.protocol.java_hash import in_hash_map_order, java_abs, java_hash


def test_java_string_hashes() -> None:
    """Values of `String.hashCode`."""
    assert java_hash("") == 0
    assert java_hash("hello") == 99162322
    assert java_hash("polygenelubricants") == -(1 << 31)
    assert java_hash("é") == 233
    assert java_hash("😀") == 31 * 0xD83D + 0xDE00


def test_the_smallest_number_has_no_opposite() -> None:
    assert [java_abs(number) for number in (7, -7, -(1 << 31), (1 << 31) + 1)] == [7, 7, 0, (1 << 31) - 1]


def test_names_come_as_from_a_java_hash_map() -> None:
    """Among the settings of a topic those are shown in this order by `kafka-topics --describe` of Apache Kafka 3.9."""
    shown = [
        "compression.type",
        "min.insync.replicas",
        "cleanup.policy",
        "segment.bytes",
        "unclean.leader.election.enable",
    ]
    assert [name for name in in_hash_map_order(sorted(TOPIC_KEYS)) if name in shown] == shown
