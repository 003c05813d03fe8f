"""The fetch buffer: positions, control batches, aborted transactions, seeks while a fetch is under way."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kafkalite.client.consumer.fetch_buffer import FetchBuffer, PartitionState
from kafkalite.client.errors import ClientError
from kafkalite.protocol import messages
from kafkalite.protocol.record_batches.records import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    NewRecord,
    build_batch,
    build_marker,
)
from kafkalite.types import TopicPartition

TP = TopicPartition("t", 0)
M = messages.fetch_response


def batch(base: int, count: int = 2, producer_id: int = -1, leader_epoch: int = -1) -> bytes:
    transactional = producer_id >= 0
    return bytes(
        build_batch(
            [NewRecord(None, b"%d" % (base + n)) for n in range(count)],
            base_offset=base,
            producer_id=producer_id,
            producer_epoch=0 if transactional else -1,
            base_sequence=0 if transactional else -1,
            attributes=TRANSACTIONAL if transactional else 0,
            leader_epoch=leader_epoch,
        )
    )


def marker(base: int, producer_id: int, *, commit: bool, leader_epoch: int = -1) -> bytes:
    built = build_marker(
        commit=commit, base_offset=base, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=0
    )
    struct.pack_into(">i", data := bytearray(built), 12, leader_epoch)
    return bytes(data)


def answer(data: bytes, aborted: list[tuple[int, int]] | None = None) -> Any:
    return M.PartitionData(
        records=data,
        high_watermark=99,
        aborted_transactions=[M.AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted or []],
    )


def filled(
    data: bytes, aborted: list[tuple[int, int]] | None = None, start: int = 0
) -> tuple[FetchBuffer, PartitionState]:
    buffer = FetchBuffer(1 << 20)
    buffer.assign([TP])
    buffer.seek(TP, start)
    state = buffer.states[TP]
    assert buffer.add(state, state.generation, answer(data, aborted))
    return buffer, state


def drained(buffer: FetchBuffer) -> list[int]:
    offsets = []
    while (taken := buffer.read_next(3)) is not None:
        offsets += [record.offset for record in taken[1]]
    return offsets


def test_records_before_the_position_are_left_out() -> None:
    buffer, state = filled(batch(0, 5) + batch(5, 2), start=3)
    assert drained(buffer) == [3, 4, 5, 6]
    assert (state.position, state.fetch_offset, buffer.buffered_bytes) == (7, 7, 0)


def test_markers_are_passed_but_not_shown() -> None:
    buffer, state = filled(batch(0, 2, producer_id=5) + marker(2, 5, commit=True))
    assert drained(buffer) == [0, 1]
    assert state.position == 3


def test_the_epoch_of_the_position_is_that_of_the_last_batch_before_it_shown_or_not() -> None:
    """Else a marker of a later epoch would be taken for a truncation: its offset is above the end of the last record's epoch."""
    data = batch(0, 2, producer_id=5, leader_epoch=3) + marker(2, 5, commit=True, leader_epoch=4)
    buffer, state = filled(data)
    assert buffer.read_next(1) is not None
    assert (state.position, state.position_epoch) == (1, 3)
    assert drained(buffer) == [1]
    assert (state.position, state.position_epoch) == (3, 4)
    hidden = batch(0, 1, leader_epoch=3) + batch(1, 2, producer_id=5, leader_epoch=4)
    buffer, state = filled(hidden, aborted=[(5, 1)])
    assert drained(buffer) == [0]
    assert (state.position, state.position_epoch) == (3, 4)


def test_a_partition_that_was_revoked_and_assigned_again_ignores_answers_to_questions_of_before() -> None:
    buffer, state = filled(batch(0))
    generation = state.generation
    buffer.assign([])
    buffer.assign([TP])
    assert state.generation != generation
    assert not buffer.add(state, generation, answer(batch(2)))


def test_aborted_transactions_are_hidden_up_to_their_marker() -> None:
    data = (
        batch(0, 2, producer_id=5)
        + batch(2, 2, producer_id=6)
        + batch(4, 1)
        + marker(5, 5, commit=False)
        + batch(6, 2, producer_id=5)
        + marker(8, 5, commit=True)
        + marker(9, 6, commit=True)
    )
    buffer, state = filled(data, aborted=[(5, 0)])
    assert drained(buffer) == [2, 3, 4, 6, 7]
    assert state.position == 10


def test_a_torn_batch_at_the_end_is_fetched_again() -> None:
    buffer, state = filled(batch(0) + batch(2)[:-3])
    assert drained(buffer) == [0, 1] and state.fetch_offset == 2


def test_an_answer_to_an_old_question_is_dropped() -> None:
    buffer, state = filled(batch(0))
    generation = state.generation
    buffer.seek(TP, 50)
    assert not buffer.add(state, generation, answer(batch(2)))
    assert buffer.read_next(10) is None and state.position == 50 and buffer.buffered_bytes == 0
    buffer.assign([])
    assert not buffer.add(state, state.generation, answer(batch(50)))


def test_a_batch_that_does_not_fit_into_a_fetch_is_reported() -> None:
    buffer = FetchBuffer(1 << 20)
    buffer.assign([TP])
    buffer.seek(TP, 0)
    state = buffer.states[TP]
    with pytest.raises(ClientError, match="does not fit into a fetch"):
        buffer.add(state, state.generation, answer(batch(0)[:-1]))


def test_partitions_take_turns_when_one_is_drained() -> None:
    other = TopicPartition("t", 1)
    buffer = FetchBuffer(1 << 20)
    buffer.assign([TP, other])
    for each in (TP, other):
        buffer.seek(each, 0)
        state = buffer.states[each]
        buffer.add(state, state.generation, answer(batch(0, 2)))
    taken = [buffer.read_next(10), buffer.read_next(10)]
    assert {found[0].topic_partition for found in taken if found} == {TP, other}


def test_what_wants_a_fetch() -> None:
    buffer = FetchBuffer(100)
    buffer.assign([TP])
    state = buffer.states[TP]
    assert not buffer.wants_fetch(state, 0.0), "no position yet"
    buffer.seek(TP, 0)
    assert buffer.wants_fetch(state, 0.0)
    buffer.add(state, state.generation, answer(batch(0, 20)))
    assert not buffer.wants_fetch(state, 0.0), "enough is buffered"
    drained(buffer)
    assert buffer.wants_fetch(state, 0.0)
    state.paused = True
    assert not buffer.wants_fetch(state, 0.0)


def test_a_full_fetch_is_read_while_the_next_one_is_under_way() -> None:
    """A broker cuts its answer to exactly what was asked for: read-ahead began only below that, so it never did."""
    full = batch(0, 20)
    buffer = FetchBuffer(len(full))
    buffer.assign([TP])
    buffer.seek(TP, 0)
    state = buffer.states[TP]
    buffer.add(state, state.generation, answer(full))
    assert state.buffered_bytes == len(full) and buffer.wants_fetch(state, 0.0)
    buffer.add(state, state.generation, answer(batch(20, 20)))
    assert not buffer.wants_fetch(state, 0.0)


def test_header_flags_are_as_the_tests_assume() -> None:
    assert BatchHeader.read(marker(0, 1, commit=True)).attributes & (CONTROL | TRANSACTIONAL) == CONTROL | TRANSACTIONAL


def test_records_are_read_again_when_a_signal_handler_raised_among_them() -> None:
    """The program's position is before the first record that it was not given."""
    interrupts = [KeyboardInterrupt]

    def decode(value: bytes) -> bytes:
        if value == b"5" and interrupts:
            raise interrupts.pop()
        return value

    buffer = FetchBuffer(1 << 20, decoders_of=lambda topic: (None, decode))
    buffer.assign([TP, TopicPartition("t", 1)])
    for place in buffer.states:
        buffer.seek(place, 2)
    state = buffer.states[TP]
    assert buffer.add(state, state.generation, answer(batch(0, 4) + batch(4, 4)))
    assert [each.offset for each in buffer.read_many(1)[TP]] == [2]
    with pytest.raises(KeyboardInterrupt):
        buffer.read_many(100)
    assert state.position == state.fetch_offset == 3 and buffer.wants_fetch(state, 0.0)
    assert buffer.buffered_bytes == state.buffered_bytes == 0
    assert buffer.add(state, state.generation, answer(batch(0, 4) + batch(4, 4)))
    assert [each.offset for each in buffer.read_many(100)[TP]] == [3, 4, 5, 6, 7]


def test_what_can_be_read_is_found_without_taking_it() -> None:
    buffer, state = filled(batch(0))
    assert buffer.find_readable(1) == {TP: [None]} and state.position == 0
    assert buffer.find_readable(1, {TopicPartition("t", 1)}) == {}
    state.paused = True
    assert buffer.find_readable(1) == {}
    state.paused = False
    assert drained(buffer) == [0, 1] and buffer.find_readable(1) == {}
    state.error = ValueError("why")
    assert buffer.find_readable(1) == {TP: [None]}
