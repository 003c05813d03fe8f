"""A producer that stays with one broker, whoever leads: what a client is that has not heard of a new leader.

It keeps several requests in flight on one connection and never repeats one, so that an acknowledgement always belongs to
the one attempt that was made.
"""

from __future__ import annotations

import asyncio
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
from kafkalite.testing.workloads.threads import WorkloadThread

_PRODUCE_VERSION: Final = 8
_IN_FLIGHT: Final = 8
_PERIOD_S: Final = 0.05
_MAY_BE_APPENDED: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


class DirectWriter(WorkloadThread):
    """Sends one record every 50 ms to `partition` at `host:port`, from `start` to `finish`.

    `answered` counts the refusals and the acknowledgements; `last_ack_ns` is the moment of the latest acknowledgement, and
    `last_acknowledged_send_ns` the moment when the latest of the acknowledged records was sent, 0 before the first. `problems` say why the
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
        super().__init__(recorder, name)
        self.answered = 0
        self.acknowledged = 0
        self.last_ack_ns = 0
        self.last_acknowledged_send_ns = 0
        self.errors: set[str] = set()
        self._host, self._port = host, port
        self._topic, self._partition = topic, partition
        self._acks, self._timeout_ms = acks, timeout_ms
        self._number = 0

    def start(self) -> None:
        self._recorder.add(ProducerStarted(self._recorder.now_ns(), self.name, self._acks, True, 0))
        super().start()

    def finish(self, timeout_s: float = 60) -> None:
        """Send no more and wait for the answers, each for as long as a broker may take."""
        super().finish(timeout_s)

    def _run(self) -> None:
        asyncio.run(self._produce())

    async def _produce(self) -> None:
        connection = await Connection.open(self._host, self._port, client_id=self.name)
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
        value = Value(self.name, self._number)
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
