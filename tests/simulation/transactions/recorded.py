"""A transactional producer whose history is recorded: what it began, sent, committed and aborted, as far as it knows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from kafkalite.client import (
    AbortableTransactionError,
    ClientError,
    ClientTimeoutError,
    GroupMetadata,
    Producer,
    ProducerFencedError,
    TopicPartition,
)
from kafkalite.testing.history.events import (
    SendAcknowledged,
    SendInvoked,
    SendUnknown,
    TransactionAborted,
    TransactionBegun,
    TransactionCommitted,
    TransactionEndInvoked,
    TransactionOffset,
    TransactionSend,
    Value,
)

if TYPE_CHECKING:
    from tests.simulation.transactions.transactional_run import TransactionalRun

_PADDING_BYTES: Final = 60


class RecordedProducer:
    """`name` is that of one producer: whoever comes after it under the same transactional id has another one."""

    def __init__(self, run: TransactionalRun, name: str, producer: Producer) -> None:
        self.name = name
        self._run, self._producer = run, producer
        self._number = 0
        self._sent: Counter[TopicPartition] = Counter()
        self._fates: list[asyncio.Future[None]] = []

    @asynccontextmanager
    async def transaction(self, *, commits: bool) -> AsyncIterator[None]:
        """What is sent within. An error that can be aborted is, and raised: AbortableTransactionError; so is FatalTransactionError."""
        self._number += 1
        self._run.note(TransactionBegun(self._run.now_ns, self.name, self._number))
        await self._producer.begin_transaction()
        asked = False
        try:
            yield
            self._run.note(TransactionEndInvoked(self._run.now_ns, self.name, self._number, commits))
            if commits:
                asked = True
                await self._until_decided(self._producer.commit_transaction)
                self._run.note(TransactionCommitted(self._run.now_ns, self.name, self._number))
            else:
                await self._abort()
        except ProducerFencedError:
            if not asked:  # whoever fenced it has aborted it
                self._run.note(TransactionAborted(self._run.now_ns, self.name, self._number))
            raise
        except AbortableTransactionError:
            await self._abort()
            raise

    async def _abort(self) -> None:
        await self._until_decided(self._producer.abort_transaction)
        self._run.note(TransactionAborted(self._run.now_ns, self.name, self._number))

    async def _until_decided(self, ask: Any) -> None:
        while True:
            try:
                return await ask()  # type: ignore[no-any-return]
            except ClientTimeoutError:
                continue

    async def send(self, partition: TopicPartition, key: bytes | None) -> None:
        """One record of the transaction. Errors as `Producer.send`."""
        run, value = self._run, Value(self.name, self._sent[partition])
        self._sent[partition] += 1
        run.note(TransactionSend(run.now_ns, self.name, self._number, *partition, value.number))
        run.note(SendInvoked(run.now_ns, *partition, *value))
        data = value.to_bytes(_PADDING_BYTES)
        delivery = await self._producer.send(partition.topic, data, key=key, partition=partition.partition)
        self._fates.append(asyncio.ensure_future(self._fate(partition, value, delivery)))

    async def _fate(self, partition: TopicPartition, value: Value, delivery: Any) -> None:
        try:
            metadata = await delivery
        except ClientError as problem:
            self._run.note(SendUnknown(self._run.now_ns, *partition, *value, repr(problem)))
        else:
            self._run.note(SendAcknowledged(self._run.now_ns, *partition, *value, metadata.offset))

    async def send_offsets(self, offsets: Mapping[TopicPartition, Any], group: GroupMetadata) -> None:
        """Errors as `Producer.send_offsets_to_transaction`."""
        for partition, found in offsets.items():
            offset = TransactionOffset(
                self._run.now_ns, self.name, self._number, group.group_id, *partition, found.offset
            )
            self._run.note(offset)
        await self._producer.send_offsets_to_transaction(offsets, group)

    async def settle(self) -> None:
        """Until the fate of each record is recorded; closes the producer, which gives up what is left."""
        await self._producer.close(timeout=0)
        await asyncio.gather(*self._fates)
