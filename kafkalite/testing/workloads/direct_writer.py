"""A producer that stays with one broker, whoever leads: what a client is that has not heard of a new leader.

It keeps several requests in flight on one connection and never repeats one, so that an acknowledgement always belongs to
the one attempt that was made.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Any, Final

from kafkalite.errors import ErrorCode
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.record_batches.records import NewRecord, build_batch
from kafkalite.testing.history.events import (
    ProducerStarted,
    SendAcknowledged,
    SendFailed,
    SendInvoked,
    SendUnknown,
    Value,
)
from kafkalite.testing.history.recorder import Recorder

_PRODUCE_VERSION: Final = 8
_IN_FLIGHT: Final = 8
_PERIOD_S: Final = 0.05
_MAY_BE_APPENDED: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


class DirectWriter:
    """Sends one record every 50 ms to `partition` at `host:port`, from `start` to `finish`.

    `answered` counts the refusals and the acknowledgements; `last_ack_ns` is the moment of the latest acknowledgement, and
    `last_acknowledged_send_ns` the moment when the latest of the acknowledged records was sent, 0 before the first. `problem` says why the
    writer ended early.
    """

    def __init__(
        self,
        recorder: Recorder,
        host: str,
        port: int,
        topic: str,
        partition: int,
        *,
        name: str,
        acks: int = -1,
        timeout_ms: int = 1_000,
    ) -> None:
        self.answered = 0
        self.acknowledged = 0
        self.last_ack_ns = 0
        self.last_acknowledged_send_ns = 0
        self.errors: set[str] = set()
        self.problem: str | None = None
        self._recorder = recorder
        self._host, self._port = host, port
        self._topic, self._partition = topic, partition
        self._name, self._acks, self._timeout_ms = name, acks, timeout_ms
        self._number = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._main, name=f"writer {name}", daemon=True)

    def start(self) -> None:
        self._recorder.add(ProducerStarted(self._recorder.now_ns(), self._name, self._acks, True, 0))
        self._thread.start()

    def finish(self) -> None:
        """Send no more and wait for the answers, each for as long as a broker may take."""
        self._stopping.set()
        self._thread.join(60)

    def _main(self) -> None:
        try:
            asyncio.run(self._produce())
        except Exception as problem:
            self.problem = repr(problem)

    async def _produce(self) -> None:
        connection = await Connection.open(self._host, self._port, client_id=self._name)
        waiting: deque[asyncio.Task[None]] = deque()
        try:
            while not self._stopping.is_set():
                while waiting and waiting[0].done():
                    waiting.popleft().result()
                if len(waiting) < _IN_FLIGHT:
                    waiting.append(asyncio.create_task(self._send(connection)))
                await asyncio.sleep(_PERIOD_S)
            await asyncio.gather(*waiting)
        finally:
            connection.close()

    async def _send(self, connection: Connection) -> None:
        value = Value(self._name, self._number)
        self._number += 1
        invoked_ns = self._recorder.now_ns()
        self._recorder.add(SendInvoked(invoked_ns, self._topic, self._partition, *value))
        try:
            response = await connection.request(self._request(value), _PRODUCE_VERSION, timeout_s=60)
        except (OSError, TimeoutError) as problem:
            self._record_failure(SendUnknown, value, repr(problem))
            return
        answer = response.responses[0].partition_responses[0]
        self.answered += 1
        if answer.error_code == ErrorCode.NONE:
            self.acknowledged += 1
            self.last_ack_ns = self._recorder.now_ns()
            self.last_acknowledged_send_ns = max(self.last_acknowledged_send_ns, invoked_ns)
            acknowledged = SendAcknowledged(self.last_ack_ns, self._topic, self._partition, *value, answer.base_offset)
            self._recorder.add(acknowledged)
            return
        error = ErrorCode(answer.error_code)
        self.errors.add(error.name)
        self._record_failure(SendUnknown if error in _MAY_BE_APPENDED else SendFailed, value, error.name)

    def _record_failure(self, kind: type[SendUnknown] | type[SendFailed], value: Value, error: str) -> None:
        self._recorder.add(kind(self._recorder.now_ns(), self._topic, self._partition, *value, error))

    def _request(self, value: Value) -> Any:
        produce = messages.produce_request
        batch = bytes(build_batch([NewRecord(None, value.to_bytes(), 1_600_000_000_000)]))
        partition = produce.PartitionProduceData(index=self._partition, records=batch)
        topic = produce.TopicProduceData(name=self._topic, partition_data=[partition])
        return produce.ProduceRequest(acks=self._acks, timeout_ms=self._timeout_ms, topic_data=[topic])
