"""Producers that begin again with sequence number 0 in their epoch, because a leader of Apache Kafka before 2.4 has forgotten them.

It forgets a producer when the last of its records is deleted, answers UNKNOWN_PRODUCER_ID, and clients before 2.5 begin again. Kafka
Streams deletes what it has read of its repartition topics all the time. Among such brokers ours may be the next leader.
"""

from __future__ import annotations

from kafkalite.errors import ErrorCode
from tests.unit.storage.log.test_partition_log import refusal
from tests.unit.storage.logs import NOW_MS, append, new_log, produced


def test_a_producer_whose_records_are_deleted_may_begin_again(tmp_path):
    """A leader of Apache Kafka before 2.4 forgets it and tells it so, and this broker leads when it comes."""
    log = new_log(tmp_path)
    for sequence in range(3):
        append(log, produced(7, sequence))
    log.set_high_watermark(3)
    log.delete_records(2)
    assert refusal(append, log, produced(7, 0, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.delete_records(3)
    assert append(log, produced(7, 2)).first_offset == 2, "it was appended before"
    assert refusal(append, log, produced(7, 5)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, produced(7, 0, 2)).first_offset == 3
    assert append(log, produced(7, 2)).first_offset == 5


def test_a_producer_that_begins_again_is_told_from_one_that_sends_again_by_timestamps(tmp_path):
    log = new_log(tmp_path)
    append(log, produced(7, 0))
    log.set_high_watermark(1)
    log.delete_records(1)
    again = append(log, produced(7, 0))
    assert again.duplicate and again.first_offset == 0
    assert append(log, produced(7, 0, timestamp=NOW_MS + 1)).first_offset == 1


def test_a_follower_does_not_take_what_a_producer_sends_for_what_it_sent_before_it_began_again(tmp_path):
    log = new_log(tmp_path)
    for offset, sequence in enumerate((0, 1, 0)):
        log.append_as_follower(produced(7, sequence, base_offset=offset), now_ms=NOW_MS)
    assert append(log, produced(7, 1)).first_offset == 3
