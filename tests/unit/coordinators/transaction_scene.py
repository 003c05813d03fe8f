"""A transaction machine driven by hand, and producers that speak to it, in virtual milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any, Self

from kafkalite.coordinators.contract import LogRecord
from kafkalite.coordinators.transaction import transaction_record
from kafkalite.coordinators.transaction.machine import TransactionMachine
from kafkalite.coordinators.transaction.requests import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    InitProducerIdReply,
    MarkersWritten,
    ProducerIdAndEpoch,
    WriteMarkers,
)
from kafkalite.coordinators.transaction.settings import TransactionSettings
from kafkalite.coordinators.transaction.transaction_record import (
    NO_PARTITIONS,
    StoredTransaction,
    TransactionState,
)
from kafkalite.errors import ErrorCode
from tests.unit.coordinators.machine_scene import WALL_MS, Call, MachineScene

ID = "id"
T0 = {"t": frozenset({0})}
TIMEOUT_MS = 60_000


@dataclass
class TransactionScene(MachineScene[TransactionMachine]):
    """See `MachineScene`. Fresh producer ids are 1, 2, 3 and so on, as the machine asks for them."""

    settings: TransactionSettings = TransactionSettings()

    def __post_init__(self) -> None:
        self._producer_ids = count(1)
        super().__post_init__()

    def new_machine(self) -> TransactionMachine:
        return TransactionMachine(self.settings)

    def successor(self, **arguments: Any) -> Self:
        return type(self)(settings=self.settings, **arguments)

    def init(self, expected: tuple[int, int] | None = None, timeout_ms: int = TIMEOUT_MS, name: str = ID) -> Call:
        """As the handler does it: with a producer id when the machine needs one."""
        request = InitProducerId(name, timeout_ms, ProducerIdAndEpoch(*expected) if expected else None)
        call = self.ask(request)
        if call.reply is not None and call.reply.needs_producer_id:
            call = self.ask(request._replace(fresh_producer_id=next(self._producer_ids)))
        return call

    def producer(self, name: str = ID) -> tuple[int, int]:
        """Id and epoch of a producer that is initialized."""
        reply: InitProducerIdReply = self.init(name=name).reply
        assert not reply.error
        return reply.producer_id, reply.producer_epoch

    def add(self, producer: tuple[int, int], partitions: Any = T0, name: str = ID) -> Any:
        return self.ask(AddPartitions(name, *producer, partitions)).reply

    def end(self, producer: tuple[int, int], commit: bool = True, name: str = ID) -> Any:
        return self.ask(EndTransaction(name, *producer, commit)).reply

    def mark(self) -> WriteMarkers:
        """The oldest markers that were sent reach everybody."""
        sent: WriteMarkers = self.sent.pop(0)
        self.ask(MarkersWritten(*sent[:3]))
        return sent

    def state(self, name: str = ID) -> str:
        described = self.machine.describe(name)
        return described.state if described else "unknown"

    def put(self, state: TransactionState, producer: tuple[int, int] = (1, 5), name: str = ID) -> None:
        """The log says so, as it does after a takeover."""
        partitions = T0 if state in (1, 2, 3) else NO_PARTITIONS
        start_ms = self.now().wall_ms if state else -1
        stored = StoredTransaction(*producer, TIMEOUT_MS, state, partitions, WALL_MS, start_ms)
        record = LogRecord(len(self.log), transaction_record.encode_key(name), transaction_record.encode_value(stored))
        self.log.append(record)
        self.machine.apply(record)


def error(call: Call) -> ErrorCode:
    """Of an InitProducerId."""
    code: ErrorCode = call.reply.error
    return code
