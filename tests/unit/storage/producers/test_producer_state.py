"""Idempotence and transactions of one log, rule by rule (KIP-98, KIP-360), and the snapshot's bytes."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.records import (
    ABORT_MARKER,
    COMMIT_MARKER,
    SEQUENCE_LIMIT,
    TRANSACTIONAL,
    BatchHeader,
    Marker,
    build_marker,
)
from kafkalite.storage.producers.producer_snapshot import UnusableSnapshot, decode_snapshot, encode_snapshot
from kafkalite.storage.producers.producer_state import ProducedRange, Producer, ProducerState
from tests.unit.storage.logs import NOW_MS, produced


class Ledger:
    """A producer state and the next offset: what a log does with it."""

    def __init__(self):
        self.state = ProducerState()
        self.end = 0

    def send(self, sequence, count=1, *, epoch=0, producer_id=7, transactional=False):
        records = produced(
            producer_id, sequence, count, epoch, base_offset=self.end, attributes=TRANSACTIONAL if transactional else 0
        )
        header = BatchHeader.read(records)
        known = self.state.check(header)
        if known is None:
            self.state.update(header)
            self.end = header.next_offset
        return known

    def end_transaction(self, kind=COMMIT_MARKER, *, epoch=0, producer_id=7, coordinator_epoch=1):
        marker = build_marker(
            commit=kind == COMMIT_MARKER,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=NOW_MS,
            base_offset=self.end,
        )
        header = BatchHeader.read(marker)
        self.state.check_marker(header, Marker(kind, coordinator_epoch))
        self.end += 1
        return self.state.complete(header, Marker(kind, coordinator_epoch))

    def refused(self, *arguments, **named):
        with pytest.raises(KafkaError) as refused:
            self.send(*arguments, **named)
        return refused.value.code


def test_each_of_the_last_five_batches_is_recognised():
    ledger = Ledger()
    for number in range(7):
        ledger.send(10 * number, 10)
    for number in range(2, 7):
        known = ledger.send(10 * number, 10)
        assert (known.first_offset, known.last_offset) == (10 * number, 10 * number + 9)
    assert ledger.refused(10, 10) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_part_of_a_batch_is_no_duplicate():
    ledger = Ledger()
    ledger.send(0, 10)
    assert ledger.refused(0, 9) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert ledger.refused(5, 5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_gaps_are_refused():
    ledger = Ledger()
    ledger.send(0)
    assert ledger.refused(2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert ledger.send(1) is None


def test_an_unknown_producer_may_begin_anywhere():
    assert Ledger().send(500) is None


def test_epochs():
    ledger = Ledger()
    ledger.send(0, epoch=3)
    assert ledger.refused(1, epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert ledger.refused(1, epoch=4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert ledger.send(0, epoch=4) is None
    assert ledger.refused(0, epoch=3) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_epoch_below_none_is_refused_of_a_new_producer_too():
    with pytest.raises(KafkaError) as refused:
        ProducerState().check(BatchHeader.read(produced(8, 0, epoch=-5)))
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert ProducerState().check(BatchHeader.read(produced(8, 0, epoch=-1))) is None


def test_sequences_wrap_to_zero():
    ledger = Ledger()
    ledger.send(SEQUENCE_LIMIT - 3, 2)
    assert ledger.refused(0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert ledger.send(SEQUENCE_LIMIT - 1, 3) is None
    assert ledger.state.producers[7].last_sequence == 1
    assert ledger.send(SEQUENCE_LIMIT - 1, 3).first_offset == 2
    assert ledger.send(2) is None


def test_a_marker_with_a_new_epoch_begins_sequences_again():
    ledger = Ledger()
    ledger.send(0, 3, transactional=True)
    ledger.end_transaction(ABORT_MARKER, epoch=1)
    assert ledger.refused(3, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert ledger.refused(3, epoch=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert ledger.send(0, epoch=1) is None


def test_a_marker_with_the_same_epoch_goes_on_with_sequences():
    ledger = Ledger()
    ledger.send(0, 3, transactional=True)
    ledger.end_transaction()
    assert ledger.send(3, transactional=True) is None


def test_stale_markers():
    ledger = Ledger()
    ledger.send(0, transactional=True, epoch=2)
    ledger.end_transaction(epoch=2, coordinator_epoch=5)
    with pytest.raises(KafkaError) as refused:
        ledger.end_transaction(epoch=1, coordinator_epoch=5)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(KafkaError) as refused:
        ledger.end_transaction(epoch=2, coordinator_epoch=4)
    assert refused.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_within_a_transaction_all_batches_belong_to_it():
    ledger = Ledger()
    ledger.send(0, transactional=True)
    assert ledger.refused(1) == ErrorCode.INVALID_TXN_STATE


def test_the_first_unstable_offset_follows_the_oldest_transaction():
    ledger = Ledger()
    state = ledger.state
    assert state.first_unstable_offset is None
    ledger.send(0, 5, producer_id=1, transactional=True)
    ledger.send(0, 5, producer_id=2, transactional=True)
    assert state.first_unstable_offset == 0
    ledger.end_transaction(producer_id=1)
    assert state.first_unstable_offset == 0, "the marker is not below the high watermark"
    state.advance_high_watermark(10)
    assert state.first_unstable_offset == 0
    state.advance_high_watermark(11)
    assert state.first_unstable_offset == 5
    assert state.open_transactions == {2: 5}


def test_an_aborted_transaction_gets_an_entry():
    ledger = Ledger()
    ledger.send(0, 5, producer_id=1, transactional=True)
    ledger.send(0, 5, producer_id=2, transactional=True)
    assert ledger.end_transaction(ABORT_MARKER, producer_id=2) == (2, 5, 10, 0)
    assert ledger.end_transaction(ABORT_MARKER, producer_id=1) == (1, 0, 11, 12)
    assert ledger.end_transaction(ABORT_MARKER, producer_id=1) is None
    assert ledger.end_transaction(COMMIT_MARKER, producer_id=3) is None


def test_expiry_spares_open_transactions():
    ledger = Ledger()
    ledger.send(0, producer_id=1)
    ledger.send(0, producer_id=2, transactional=True)
    assert ledger.state.expire(NOW_MS + 1000, 1000) == 0
    assert ledger.state.expire(NOW_MS + 1001, 1000) == 1
    assert list(ledger.state.producers) == [2]


def test_snapshots_byte_by_byte():
    producer = Producer(7, 3, NOW_MS, 5, 40, [ProducedRange(9, 49, 4, NOW_MS)])
    body = struct.pack(">iqhiqiqiq", 1, 7, 3, 9, 49, 4, NOW_MS, 5, 40)
    data = encode_snapshot([producer])
    assert data == struct.pack(">hI", 1, crc32c(body)) + body
    (back,) = decode_snapshot(data)
    assert (back.epoch, back.last_sequence, back.last_offset, back.coordinator_epoch) == (3, 9, 49, 5)
    assert (back.transaction_first_offset, back.last_timestamp, back.batches[0].first_sequence) == (40, NOW_MS, 5)
    assert ProducerState([back]).first_unstable_offset == 40


def test_a_producer_that_only_got_markers_has_no_batch_in_its_snapshot():
    ledger = Ledger()
    ledger.end_transaction(epoch=4, producer_id=9)
    (back,) = decode_snapshot(encode_snapshot(list(ledger.state.producers.values())))
    assert (back.epoch, list(back.batches), back.transaction_first_offset) == (4, [], None)


@pytest.mark.parametrize("position", range(0, 55, 6))
def test_damaged_snapshots_are_not_used(position):
    data = bytearray(encode_snapshot([Producer(7, 3, NOW_MS, 5, None, [ProducedRange(9, 49, 4, NOW_MS)])]))
    with pytest.raises(UnusableSnapshot):
        decode_snapshot(data[:position])
    data[position % len(data)] ^= 0xFF
    with pytest.raises(UnusableSnapshot):
        decode_snapshot(bytes(data))
