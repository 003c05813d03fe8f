"""The fate of one produced record, as something to await or to ask."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator

from kafkalite.client.producer.accumulator import Batch, BatchState, DeliveryCallback
from kafkalite.client.records import CREATE_TIME, LOG_APPEND_TIME, RecordMetadata

log = logging.getLogger(__name__)

OnDelivery = Callable[[RecordMetadata | None, Exception | None], None]
"""Called with (metadata, None) after delivery, with (None, error) after failure. What it raises is logged."""


def metadata_of(batch: Batch, index: int) -> RecordMetadata:
    """Return topic, partition, offset and timestamp of record `index` of a delivered batch."""
    batch, index = batch.part_of(index)
    topic, partition = batch.topic_partition
    offset = batch.base_offset + index if batch.base_offset >= 0 else -1
    if batch.log_append_time >= 0:
        return RecordMetadata(topic, partition, offset, batch.log_append_time, LOG_APPEND_TIME)
    return RecordMetadata(topic, partition, offset, batch.writer.timestamp_at(index), CREATE_TIME)


def callback_for(on_delivery: OnDelivery) -> DeliveryCallback:
    """Return the callback of a batch that calls `on_delivery` for one of its records."""

    def callback(batch: Batch, index: int) -> None:
        error = batch.part_of(index)[0].error
        notify_delivery(on_delivery, None if error is not None else metadata_of(batch, index), error)

    return callback


def notify_delivery(on_delivery: OnDelivery, metadata: RecordMetadata | None, error: Exception | None) -> None:
    """Call `on_delivery`. What it raises is logged, as by Java's producer: other records, and the sender, must not suffer from it."""
    try:
        on_delivery(metadata, error)
    except (Exception, asyncio.CancelledError):
        log.exception("on_delivery failed")


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
        """Call `callback(self)` when the fate is known, at once when it is. What it raises is logged."""
        if self.done():
            self._notify(callback)
        else:
            self.batch.on_done.append(lambda: self._notify(callback))

    def _notify(self, callback: Callable[[Delivery], None]) -> None:
        try:
            callback(self)
        except (Exception, asyncio.CancelledError):
            log.exception("a callback of a delivery failed")

    def __await__(self) -> Generator[None, None, RecordMetadata]:
        if not self.done():
            waiter = asyncio.get_running_loop().create_future()
            self.batch.on_done.append(lambda: None if waiter.done() else waiter.set_result(None))
            yield from waiter
        return self.result()
