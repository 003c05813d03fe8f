"""The sink's transactions: tasks write and leave theirs open, the driver decides (KIP-98; as Flink's two phases).

With the option `transactional.id.prefix` each task writes in a transaction of its own, because a transaction has one producer, and hands it
to the driver when all rows are in the log. A task that Spark runs again fences its predecessor, whose rows nobody sees then.

A stream's micro-batch is one transaction, and so one task (`df.coalesce(1)`; more are refused before anything is committed). The number
of the next batch is committed with it, as the offset of `PLACE` in a group that has the prefix's name, with the query's id as its note.
A batch that is run again is compared with it: what is committed already is not committed twice, whenever and wherever the driver died.
A batch further behind is refused: Spark repeats only the last one, so the checkpoint is an older copy, or a driver that was replaced goes
on. Who gives a query a new checkpoint gives it a new id, and begins again. Two drivers of one query share the transactional id: the task
that begins last has aborted what the other one had open before its driver reads the number. Brokers forget the offset after
`offsets.retention.minutes` without a batch (7 days), so a query that rests for longer may write the batch again in whose commit it died.

A batch write has no number: when the driver dies while it commits the transactions of several tasks, some are visible. The nightly jobs
know their rows again (`batch.topic_sink`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from kafkalite.client import (
    AdminOptions,
    ClientError,
    OffsetAndMetadata,
    PreparedTransaction,
    ProducerOptions,
    SyncAdmin,
    TopicPartition,
)
from spark_jobs.options import OptionError, client_options

log = logging.getLogger(__name__)

PLACE: Final = TopicPartition("__transaction_state", 0)
"""Where the number of a query's next batch is an offset: brokers keep offsets of partitions that there are, and this one is there."""
TIMEOUT_MS: Final = 900_000
"""How long a task's rows may wait for the slowest task: as long as brokers allow (transaction.max.timeout.ms)."""

_QUERY_ID: Final = "sql.streaming.queryId"
"""Spark's local property with the id of the query, which its checkpoint keeps."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells the driver: its transaction, None when it had no rows, and the query for which it ran ("" for a batch)."""

    prepared: PreparedTransaction | None = None
    query_id: str = ""


def producer_options(settings: Mapping[str, str], prefix: str, partition: int) -> dict[str, Any]:
    """Return the keyword arguments of the producer of a task."""
    return {
        "transaction_timeout_ms": TIMEOUT_MS,
        **client_options(ProducerOptions, settings),
        "transactional_id": f"{prefix}-{partition}",
    }


def task() -> tuple[int, str]:
    """Return the number of the task that this is, and the query for which it runs; (0, "") outside of Spark."""
    context = TaskContext.get()
    if context is None:
        return 0, ""
    return context.partitionId(), context.getLocalProperty(_QUERY_ID) or ""


class StaleCheckpointError(RuntimeError):
    """A query whose checkpoint lies behind what it has committed: what its batches have now need not be what they had then."""


def is_committed(found: OffsetAndMetadata | None, prefix: str, query_id: str, batch: int) -> bool:
    """True if `found`, the group's offset, says that this batch of the query is committed.

    Spark repeats no batch but the last one of a checkpoint. StaleCheckpointError for one that lies further behind, and for a query without
    an id, which could not be told from another one.
    """
    if not query_id:
        raise StaleCheckpointError(
            f"a task of batch {batch} in the transactions of {prefix} does not know its query: "
            f"Spark's local property {_QUERY_ID} is missing"
        )
    if found is None or found.metadata != query_id or found.offset <= batch:
        return False
    if found.offset > batch + 1:
        raise StaleCheckpointError(
            f"the checkpoint of query {query_id} is at batch {batch}, but its batches before {found.offset} are committed in the "
            f"transactions of {prefix}: another process runs this query, or the checkpoint was put back to an older state. Stop the "
            "other process; in place of an older checkpoint begin a new one, with startingOffsets behind what the topic has"
        )
    return True


class DriverTransactions:
    """What the driver does with the transactions of the tasks. `connect` gives an admin client, for tests."""

    def __init__(self, settings: Mapping[str, str], prefix: str, connect: Callable[..., SyncAdmin] = SyncAdmin) -> None:
        self._settings, self._prefix, self._connect = settings, prefix, connect

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the transactions of a batch write, one after the other. ClientError."""
        with self._admin() as admin:
            for each in _read_prepared(messages):
                admin.end_transaction(each, commit=True)

    def commit_batch(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        """Commit a micro-batch, unless it is committed already. OptionError for several tasks, StaleCheckpointError, ClientError."""
        if len(messages) > 1:
            self.abort(messages)
            raise OptionError(
                f"option 'transactional.id.prefix': a micro-batch of {len(messages)} tasks cannot be one transaction; "
                "write df.coalesce(1)"
            )
        for message in messages:
            if isinstance(message, Written) and message.prepared is not None:
                self._commit_once(message.prepared, message.query_id, batch)

    def _commit_once(self, prepared: PreparedTransaction, query_id: str, batch: int) -> None:
        with self._admin() as admin:
            found = admin.list_group_offsets(self._prefix, [PLACE], require_stable=True)[PLACE]
            try:
                done = is_committed(found, self._prefix, query_id, batch)
            except StaleCheckpointError:
                admin.end_transaction(prepared, commit=False)
                raise
            if done:
                log.warning(
                    "batch %d of query %s is committed already; its rows are not written again", batch, query_id
                )
                admin.end_transaction(prepared, commit=False)
            else:
                offsets = {PLACE: (batch + 1, query_id)}
                admin.end_transaction(prepared, commit=True, offsets=offsets, group_id=self._prefix)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Take back what tasks have written; what cannot be aborted now is aborted by its timeout, or by the next attempt."""
        try:
            with self._admin() as admin:
                for each in _read_prepared(messages):
                    try:
                        admin.end_transaction(each, commit=False)
                    except ClientError as problem:
                        log.warning("a transaction of %s was not aborted: %s", each.transactional_id, problem)
        except ClientError as problem:
            log.warning("transactions of %s were not aborted: %s", self._prefix, problem)

    def _admin(self) -> SyncAdmin:
        return self._connect(**client_options(AdminOptions, self._settings))


def _read_prepared(messages: Sequence[WriterCommitMessage | None]) -> list[PreparedTransaction]:
    return [each.prepared for each in messages if isinstance(each, Written) and each.prepared is not None]
