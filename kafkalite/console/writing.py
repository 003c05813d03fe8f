"""Records produced in the browser: from a form, or copies of records of another topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from kafkalite.administration.record_lines import LineError, from_json_line
from kafkalite.console.parameters import BadRequestError, Parameters

if TYPE_CHECKING:
    from kafkalite.client import Producer

OpenProducer = Callable[[], AbstractAsyncContextManager["Producer"]]


async def produce(open_producer: OpenProducer, topic: str, asked: Parameters) -> dict[str, Any]:
    """Write a record, in the form of `record_lines`: key, value, headers, and partition and timestamp where they are given."""
    try:
        record = from_json_line(json.dumps(asked.value("record")).encode(), with_partition=True)
    except LineError as problem:
        raise BadRequestError(str(problem)) from None
    async with open_producer() as producer:
        written = await producer.send_and_wait(
            topic,
            record.value,
            key=record.key,
            headers=record.headers,
            timestamp_ms=record.timestamp,
            partition=record.partition,
        )
    return {"topic": topic, "partition": written.partition, "offset": written.offset}
