"""Records as programs see them: frozen, comparable, picklable, and the same whether they were made by the constructor or by the reader."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle

import pytest

from kafkalite.client.consumer_record import ConsumerRecord
from kafkalite.client.record_codec import BatchWriter
from kafkalite.client.record_reader import read_records
from kafkalite.client.records import CREATE_TIME
from kafkalite.protocol.record_batches.records import BatchHeader

FIELDS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers", "leader_epoch")


@pytest.fixture
def record() -> ConsumerRecord:
    return ConsumerRecord("t", 3, 12, 1_700_000_000_000, CREATE_TIME, b"k", None, (("h", b"1"),), 5)


def test_a_record_cannot_be_changed(record: ConsumerRecord) -> None:
    for field in FIELDS:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, field, 1)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(record, field)
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.other = 1  # type: ignore[attr-defined]
    assert not hasattr(record, "__dict__")


def test_a_record_is_a_dataclass_of_its_fields(record: ConsumerRecord) -> None:
    assert tuple(field.name for field in dataclasses.fields(record)) == FIELDS
    assert tuple(record.to_dict()) == FIELDS
    assert ConsumerRecord(**record.to_dict()) == record
    assert dataclasses.replace(record, offset=13).offset == 13


def test_copies_are_equal(record: ConsumerRecord) -> None:
    assert pickle.loads(pickle.dumps(record)) == copy.copy(record) == copy.deepcopy(record) == record
    assert hash(pickle.loads(pickle.dumps(record))) == hash(record)


def test_records_that_were_read_are_equal_to_constructed_ones(record: ConsumerRecord) -> None:
    writer = BatchWriter(1000)
    assert writer.append(record.timestamp, record.key, record.value, list(record.headers))
    data = writer.build(0)
    (read,) = read_records(data, BatchHeader.read(data), "t", 3, 0)
    assert type(read) is ConsumerRecord
    assert dataclasses.replace(read, headers=tuple(read.headers), offset=12, leader_epoch=5) == record


def test_the_garbage_collector_does_not_follow_records(record: ConsumerRecord) -> None:
    assert not gc.is_tracked(record)
