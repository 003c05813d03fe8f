"""Records that iteration holds back are unread."""

from __future__ import annotations

from kafkalite.client.consumer.ungiven import first_offset, first_offsets, none_of, only_of, ungiven
from kafkalite.client.consumer_record import ConsumerRecord
from kafkalite.types import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


def record(place: TopicPartition, offset: int) -> ConsumerRecord:
    return ConsumerRecord(*place, offset, 0, 0, None, b"", (), -1)


def test_they_are_given_in_order_and_the_position_is_before_them() -> None:
    records = ungiven({A: [record(A, 3), record(A, 5)], B: [record(B, 7)]})
    assert first_offsets(records) == {A: 3, B: 7} and first_offset(records, B) == 7
    assert [records.pop().offset, first_offset(records, A)] == [3, 5]
    assert first_offset(records, TopicPartition("c", 0)) is None
    assert [each.offset for each in only_of(records, {A})] == [5]
    assert [each.offset for each in none_of(records, {A})] == [7]
