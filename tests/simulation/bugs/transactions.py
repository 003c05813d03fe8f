"""Bugs of transactions: of coordinators, of partitions that transactions are written to, of groups' offsets within them, and of clients."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.patching import Bug, Edit

_MACHINE: Final = "kafkalite.coordinators.transaction.machine"
_TRANSITIONS: Final = "kafkalite.coordinators.transaction.transitions"
_PRODUCERS: Final = "kafkalite.storage.producers.producer_state"
_LOG: Final = "kafkalite.storage.log.partition_log"
_OFFSETS: Final = "kafkalite.coordinators.group.offset_table"
_CLIENT: Final = "kafkalite.client.producer.transactions"

TRANSACTIONAL: Final = (
    Bug(
        "readers of committed records do not stop at open transactions",
        "the last stable offset is the high watermark: records are read whose transaction is aborted later",
        (
            Edit(
                _LOG,
                "        return self.high_watermark if first is None else",
                "        return self.high_watermark if True else",
            ),
        ),
    ),
    Bug(
        "aborted transactions are not remembered",
        "the index of aborted transactions stays empty, so that readers take aborted records for committed ones",
        (Edit(_PRODUCERS, "        if marker.type != ABORT_MARKER:\n", "        if marker is not None:\n"),),
    ),
    Bug(
        "a client shows aborted records",
        "KAFKA-5534 and its like: what the answer says of aborted transactions is not looked at",
        (
            Edit(
                "kafkalite.client.consumer.fetch_buffer",
                "        return header.is_transactional and header.producer_id in self._aborted_producers\n",
                "        return False\n",
            ),
        ),
    ),
    Bug(
        "a new coordinator does not carry out what was decided",
        "markers that a dead coordinator did not send are sent by nobody (KAFKA-5513 and its like)",
        (
            Edit(
                _MACHINE,
                "        for transactional_id in self._prepared:\n            self._send_markers(",
                "        for transactional_id in ():\n            self._send_markers(",
            ),
        ),
    ),
    Bug(
        "a producer that comes back leaves its transaction open",
        "InitProducerId gives an epoch and aborts nothing: partitions wait for markers that nobody sends",
        (
            Edit(
                _TRANSITIONS,
                "    if stored.state is TransactionState.ONGOING:\n        return Prerequisite.FENCE\n",
                "",
            ),
        ),
    ),
    Bug(
        "a zombie may end the transaction of its successor",
        "the coordinator looks at the producer id only, and not at the epoch (KIP-98's fencing)",
        (
            Edit(
                _TRANSITIONS,
                "    return ErrorCode.PRODUCER_FENCED if transaction.stored.producer_epoch != producer_epoch else None\n",
                "    return None\n",
            ),
        ),
    ),
    Bug(
        "a transaction has the partitions that were added last",
        "partitions that were added before get no marker",
        (
            Edit(
                _TRANSITIONS,
                "    known = stored.partitions if is_ongoing else NO_PARTITIONS\n    none",
                "    known = NO_PARTITIONS\n    none",
            ),
        ),
    ),
    Bug(
        "offsets of aborted transactions count",
        "KAFKA-5600 and its like: the group goes on behind records whose copies were aborted",
        (Edit(_OFFSETS, "        if not pending or not committed:\n", "        if not pending:\n"),),
    ),
    Bug(
        "nobody waits for offsets that a transaction is about to commit",
        "KIP-447: whoever takes a partition over begins at the offsets before, and copies again",
        (
            Edit(
                "kafkalite.broker.handlers.group_offsets",
                "            if require_stable and machine.is_unstable(group_id, name, index):\n",
                "            if False:\n",
            ),
        ),
    ),
    Bug(
        "a coordinator forgets offsets within transactions when it changes",
        "offsets that lie in the log within an open transaction are taken for committed ones, as if they were in none",
        (
            Edit(
                "kafkalite.coordinators.runtime",
                "                    producer_id = header.producer_id if header.is_transactional else -1\n",
                "                    producer_id = -1\n",
            ),
        ),
    ),
    Bug(
        "a producer commits before its records are delivered",
        "EndTxn overtakes batches: they lie behind the marker, in a transaction that nobody ends, or are lost",
        (
            Edit(
                _CLIENT,
                "    async def _prepare(self) -> None:\n        await self._flush()\n",
                "    async def _prepare(self) -> None:\n",
            ),
        ),
    ),
    Bug(
        "a producer commits a transaction of which a record was given up",
        "the error of a batch does not reach its transaction",
        (
            Edit(
                _CLIENT,
                "        self._bump_needed = self._bump_needed or numbered\n        self.fail_record(problem)\n",
                "        self._bump_needed = self._bump_needed or numbered\n",
            ),
        ),
    ),
    Bug(
        "markers of aborted transactions say that they are committed",
        "whoever carries out a decision forgets which one it was",
        (
            Edit(
                "kafkalite.broker.coordination.transaction_markers",
                "            commit=marker.committed,\n            producer_id",
                "            commit=True,\n            producer_id",
            ),
        ),
    ),
    Bug(
        "a transaction that timed out keeps its epoch",
        "KIP-588: its producer, which does not know, begins the next one as if nothing had happened, and commits half of it",
        (
            Edit(
                _TRANSITIONS,
                "        producer_epoch=min(stored.producer_epoch + 1, _EPOCH_MAX),\n",
                "        producer_epoch=stored.producer_epoch,\n",
            ),
        ),
    ),
)
