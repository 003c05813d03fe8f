"""The fate of one produced record, as something to await or to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator

from kafkalite.client.producer.accumulator import Batch, BatchState, DeliveryCallback
from kafkalite.client.records import CREATE_TIME, LOG_APPEND_TIME, RecordMetadata

OnDelivery = Callable[[RecordMetadata | None, Exception | None], None]
"""Called with (metadata, None) after delivery, with (None, error) after failure."""


def metadata_of(batch: Batch, index: int) -> RecordMetadata:
    """Return topic, partition, offset and timestamp of record `index` of a delivered batch."""
    batch, index = batch.part_of(index)
    topic, partition = batch.topic_partition
    offset = batch.base_offset + index if batch.base_offset >= 0 else -1
    if batch.log_append_time >= 0:
        return RecordMetadata(topic, partition, offset, batch.log_append_time, LOG_APPEND_TIME)
    return RecordMetadata(topic, partition, offset, batch.timestamps[index], CREATE_TIME)


def callback_for(on_delivery: OnDelivery) -> DeliveryCallback:
    """Return the callback of a batch that calls `on_delivery` for one of its records."""

    def callback(batch: Batch, index: int) -> None:
        error = batch.part_of(index)[0].error
        if error is not None:
            on_delivery(None, error)
        else:
            on_delivery(metadata_of(batch, index), None)

    return callback


class Delivery:
    """`await` it for the record's `RecordMetadata`; it raises the error of a record that was not delivered.

    It costs nothing until it is asked: the records of a batch share their fate. The producer sets `batch` and `index`, the record's
    place in it; a constructor would double the cost.
    """

    __slots__ = ("batch", "index")

    batch: Batch
    index: int

    def done(self) -> bool:
        """True if the record was delivered, or failed."""
        return self.batch.state is BatchState.DONE

    def exception(self) -> Exception | None:
        """Return why the record was not delivered; None while that is open, and after success."""
        return self.batch.part_of(self.index)[0].error if self.done() else None

    def result(self) -> RecordMetadata:
        """Return the metadata of a delivered record. Raises its error, and asyncio.InvalidStateError while its fate is open."""
        if not self.done():
            raise asyncio.InvalidStateError("the record is not delivered yet")
        if self.batch.error is not None and (error := self.batch.part_of(self.index)[0].error) is not None:
            raise error
        return metadata_of(self.batch, self.index)

    def add_done_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Call `callback(self)` when the fate is known, at once when it is."""
        if self.done():
            callback(self)
        else:
            self.batch.on_done.append(lambda: callback(self))

    def __await__(self) -> Generator[None, None, RecordMetadata]:
        if not self.done():
            waiter = asyncio.get_running_loop().create_future()
            self.batch.on_done.append(lambda: None if waiter.done() else waiter.set_result(None))
            yield from waiter
        return self.result()
