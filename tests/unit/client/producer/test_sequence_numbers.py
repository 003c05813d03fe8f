"""Producer ids and sequence numbers."""

from __future__ import annotations

import pytest

from kafkalite.client.producer.sequence_numbers import ProducerIdAndEpoch, SequenceNumbers
from kafkalite.types import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
FIRST, SECOND = ProducerIdAndEpoch(1, 0), ProducerIdAndEpoch(2, 0)


def test_each_partition_counts_for_itself() -> None:
    state = SequenceNumbers()
    with pytest.raises(ValueError):
        state.number(A, 1)
    state.identity = FIRST
    assert [state.number(A, 3), state.number(A, 2), state.number(B, 1)] == [(FIRST, 0), (FIRST, 3), (FIRST, 0)]


def test_sequences_wrap() -> None:
    state = SequenceNumbers()
    state.identity = FIRST
    state.number(A, 2**31 - 1)
    assert state.number(A, 2) == (FIRST, 2**31 - 1)
    assert state.number(A, 1) == (FIRST, 1)


def test_a_lost_sequence_takes_a_fresh_identity_and_others_keep_theirs() -> None:
    state = SequenceNumbers()
    state.identity = FIRST
    state.number(A, 3)
    state.number(B, 3)
    state.reset(A)
    assert not state.has_identity(A) and state.has_identity(B)
    state.identity = SECOND
    assert state.number(A, 1) == (SECOND, 0) and state.number(B, 1) == (FIRST, 3)
    state.reset(B)
    assert state.number(B, 1) == (SECOND, 0), "the second identity is fresh for this partition"
