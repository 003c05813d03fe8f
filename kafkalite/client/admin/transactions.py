"""Administration of transactions: which there are, what producers partitions know, and ending what hangs (KIP-664). A part of `Admin`.

A transaction hangs when a partition waits for its end and no coordinator will ever write it: readers of committed records wait there
for ever, until `abort_transaction` writes the marker.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafkalite.client.admin.calls import AdminCalls, Results, all_of, each_of, one_of
from kafkalite.client.errors import ClientError, error_of, raise_error
from kafkalite.client.group.committable import Committable, committable
from kafkalite.client.group.coordinator_link import CoordinatorKind
from kafkalite.client.group.metadata import GroupMetadata
from kafkalite.client.plain_values import PlainValues
from kafkalite.client.producer.sequence_numbers import ProducerIdAndEpoch
from kafkalite.client.producer.transaction_requests import (
    check_answer,
    check_offsets,
    init_producer_id,
    txn_offset_commit,
)
from kafkalite.client.producer.transaction_state import PreparedTransaction
from kafkalite.clock import Clock, SystemClock
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition, group_by_topic

_PARTITIONS_AT_ONCE: Final = 500
_FENCING_TIMEOUT_MS: Final = 1
LONGEST_TRANSACTION_MS: Final = 900_000
"""The default of the brokers' transaction.max.timeout.ms: what is open for longer may hang."""


@dataclass(frozen=True, slots=True)
class TransactionListing(PlainValues):
    """A transactional id as its coordinator lists it; states are "Empty", "Ongoing", "PrepareCommit", "CompleteAbort", …"""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDescription(PlainValues):
    """What a coordinator knows of a transactional id. `start_time_ms` (since 1970 UTC) is None without a transaction; `partitions` are
    those that have no marker yet."""

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: tuple[TopicPartition, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values under the names of the fields, for JSON and tables."""
        facts = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return {**facts, "partitions": [str(each) for each in self.partitions]}


@dataclass(frozen=True, slots=True)
class ProducerState(PlainValues):
    """What a partition knows of a producer. `last_timestamp` in ms; `coordinator_epoch` is -1 before the first marker;
    `transaction_start_offset` is None without an open transaction."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True)
class HangingTransaction(PlainValues):
    """A transaction that a partition waits for, and no coordinator will end."""

    topic_partition: TopicPartition
    producer: ProducerState

    def to_dict(self) -> dict[str, Any]:
        """Return plain values under the names of the fields, for JSON and tables."""
        return {**self.topic_partition._asdict(), **self.producer.to_dict()}


class TransactionAdmin(AdminCalls):
    """Lists and describes transactions and producers, and ends hanging transactions (KIP-664)."""

    async def list_transactions(
        self, states: Iterable[str] = (), producer_ids: Iterable[int] = (), *, duration_ms: int | None = None
    ) -> list[TransactionListing]:
        """Return the transactional ids of all coordinators, by id; with `states` or `producer_ids` only those, with `duration_ms` only
        those whose transaction is open for longer (KIP-994; UNSUPPORTED_VERSION where a broker does not know that).

        Fails when one of the brokers does not answer, since its transactions would be missing.
        """
        request = messages.list_transactions_request.ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=-1 if duration_ms is None else duration_ms,
        )
        listed = await all_of(self._list_transactions_on(each, request) for each in await self._brokers())
        return sorted((each for some in listed for each in some), key=lambda each: each.transactional_id)

    async def _list_transactions_on(self, broker: int, request: Any) -> list[TransactionListing]:
        response = await self._ask_checked(broker, request, f"listing the transactions of broker {broker}")
        return [
            TransactionListing(each.transactional_id, each.producer_id, each.transaction_state, broker)
            for each in response.transaction_states
        ]

    async def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """Return state, producer and partitions of transactional ids. AdminError with TRANSACTIONAL_ID_NOT_FOUND, …"""
        return await each_of(transactional_ids, self._describe_transaction)

    async def _describe_transaction(self, transactional_id: str) -> TransactionDescription:
        request = messages.describe_transactions_request.DescribeTransactionsRequest(
            transactional_ids=[transactional_id]
        )
        what = f"describing transactional id {transactional_id}"

        def read(response: Any, coordinator: int) -> TransactionDescription:
            found = one_of(response.transaction_states, what)
            raise_error(found, what)
            return TransactionDescription(
                transactional_id,
                coordinator,
                found.transaction_state,
                found.producer_id,
                found.producer_epoch,
                found.transaction_timeout_ms,
                found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None,
                tuple(TopicPartition(each.topic, number) for each in found.topics for number in each.partitions),
            )

        return await self._at_coordinator(transactional_id, request, read, what, CoordinatorKind.TRANSACTION)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], *, broker: int | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """Return the producers that the leaders of partitions know, or that `broker` does; in the order of their ids.

        UNKNOWN_TOPIC_OR_PARTITION; AdminError with NOT_LEADER_OR_FOLLOWER (`broker` has no replica), … for those that failed.
        """
        wanted = [TopicPartition(*each) for each in partitions]
        results = Results("describing producers of", of_leaders=broker is None)
        await self._watch_leaders(wanted)

        async def attempt() -> None:
            left = dict.fromkeys(each for each in wanted if results.lacks(each))
            grouped = self._group_by_leader(left) if broker is None else {broker: left}
            for leader, asked in grouped.items():
                await self._describe_producers_on(leader, asked, results)

        await self._retrying(attempt, "describing producers")
        results.raise_failures()
        return {each: tuple(results.done[str(each)]) for each in wanted}

    async def _describe_producers_on(self, broker: int, asked: Iterable[TopicPartition], results: Results) -> None:
        m = messages.describe_producers_request
        request = m.DescribeProducersRequest(
            topics=[m.TopicRequest(name=name, partition_indexes=each) for name, each in group_by_topic(asked).items()]
        )
        response = await self._cluster.request(broker, request)
        answers = {
            TopicPartition(topic.name, each.partition_index): each
            for topic in response.topics
            for each in topic.partitions
        }
        results.record_answers(
            (
                each,
                answers[each],
                sorted(map(_producer, answers[each].active_producers), key=lambda one: one.producer_id),
            )
            for each in asked
        )

    async def abort_transaction(self, partition: TopicPartition | tuple[str, int], producer: ProducerState) -> None:
        """Write an abort marker for `producer` at the partition's leader, whatever coordinators know: for transactions that hang.

        Of a transaction that a coordinator knows it would make a half. INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, …
        """
        m = messages.write_txn_markers_request
        wanted = TopicPartition(*partition)
        marker = m.WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=[m.WritableTxnMarkerTopic(name=wanted.topic, partition_indexes=[wanted.partition])],
            coordinator_epoch=max(producer.coordinator_epoch, 0),
        )
        request = m.WriteTxnMarkersRequest(markers=[marker])
        what = f"aborting the transaction of producer {producer.producer_id} in {wanted}"
        await self._watch_leaders([wanted])

        async def attempt() -> None:
            (leader,) = self._group_by_leader({wanted: None})
            response = await self._cluster.request(leader, request)
            answers = [
                each.error_code
                for found in response.markers
                if found.producer_id == producer.producer_id
                for topic in found.topics
                if topic.name == wanted.topic
                for each in topic.partitions
                if each.partition_index == wanted.partition
            ]
            if answer := one_of(answers, what):
                raise error_of(answer, what)

        await self._retrying(attempt, what)

    async def end_transaction(
        self,
        prepared: PreparedTransaction,
        *,
        commit: bool,
        offsets: Mapping[TopicPartition, Committable] | None = None,
        group_id: str | None = None,
    ) -> None:
        """Commit or abort what `Producer.prepare_transaction` left to be decided; `offsets` of `group_id` are committed with it.

        ProducerFencedError when a later producer of the id, or the transaction's timeout, has aborted it. Ending it in the same
        way again changes nothing; INVALID_TXN_STATE when it was ended in the other. ValueError for offsets without a group or a commit.
        """
        if offsets and (group_id is None or not commit):
            raise ValueError("offsets need a group and a commit")
        identity = ProducerIdAndEpoch(prepared.producer_id, prepared.producer_epoch)
        facts = dataclasses.asdict(prepared)
        what = f"{'committing' if commit else 'aborting'} a transaction of {prepared.transactional_id}"

        def read(response: Any, _: int) -> None:
            check_answer(response, what)

        if offsets and group_id is not None:
            wanted = committable(offsets)
            add = messages.add_offsets_to_txn_request.AddOffsetsToTxnRequest(**facts, group_id=group_id)
            await self._at_coordinator(prepared.transactional_id, add, read, what, CoordinatorKind.TRANSACTION)
            send = txn_offset_commit(prepared.transactional_id, identity, GroupMetadata(group_id), wanted)
            await self._at_coordinator(group_id, send, lambda answer, _: check_offsets(answer, wanted, what), what)
        end = messages.end_txn_request.EndTxnRequest(**facts, committed=commit)
        await self._at_coordinator(prepared.transactional_id, end, read, what, CoordinatorKind.TRANSACTION)

    async def find_hanging_transactions(
        self,
        partitions: Iterable[TopicPartition | tuple[str, int]],
        *,
        broker: int | None = None,
        longest_transaction_ms: int = LONGEST_TRANSACTION_MS,
        clock: Clock | None = None,
    ) -> list[HangingTransaction]:
        """Return transactions of `partitions` without a record for longer than `longest_transaction_ms` that no coordinator will end.

        `broker` asks that replica and not the leaders. Errors as `describe_producers` and `list_transactions`.
        """
        now_ms = (clock or SystemClock()).now_ms()
        wanted = list(dict.fromkeys(TopicPartition(*each) for each in partitions))
        candidates: list[HangingTransaction] = []
        for begin in range(0, len(wanted), _PARTITIONS_AT_ONCE):
            known = await self.describe_producers(wanted[begin : begin + _PARTITIONS_AT_ONCE], broker=broker)
            candidates += [
                HangingTransaction(partition, each)
                for partition, producers in known.items()
                for each in producers
                if each.transaction_start_offset is not None and now_ms - each.last_timestamp > longest_transaction_ms
            ]
        if not candidates:
            return []
        listed = await self.list_transactions(producer_ids=sorted({each.producer.producer_id for each in candidates}))
        described = await self._describe_all({each.transactional_id for each in listed})
        ids = {each.producer_id: each.transactional_id for each in listed}
        return [each for each in candidates if not _will_be_ended(each, ids, described)]

    async def _describe_all(self, transactional_ids: Iterable[str]) -> Mapping[str, TransactionDescription]:
        async def describe(transactional_id: str) -> TransactionDescription | None:
            try:
                return await self._describe_transaction(transactional_id)
            except ClientError as problem:
                if problem.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    return None
                raise

        found = await each_of(transactional_ids, describe)
        return {name: each for name, each in found.items() if each is not None}

    async def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Fence the producers that use transactional ids, and abort what they left open; the producer id and epoch that each got (KIP-588).

        AdminError with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, … for those that failed.
        """
        return await each_of(transactional_ids, self._fence)

    async def _fence(self, transactional_id: str) -> tuple[int, int]:
        request = init_producer_id(transactional_id, _FENCING_TIMEOUT_MS, None)
        what = f"fencing transactional id {transactional_id}"

        def read(response: Any, _: int) -> tuple[int, int]:
            raise_error(response, what)
            return response.producer_id, response.producer_epoch

        return await self._at_coordinator(transactional_id, request, read, what, CoordinatorKind.TRANSACTION)


def _producer(answer: messages.describe_producers_response.ProducerState) -> ProducerState:
    start = answer.current_txn_start_offset
    return ProducerState(
        answer.producer_id,
        answer.producer_epoch,
        answer.coordinator_epoch,
        answer.last_sequence,
        answer.last_timestamp,
        start if start >= 0 else None,
    )


def _will_be_ended(
    candidate: HangingTransaction, ids: Mapping[int, str], described: Mapping[str, TransactionDescription]
) -> bool:
    """A coordinator names the partitions that it has yet to write a marker to."""
    found = described.get(ids.get(candidate.producer.producer_id, ""))
    return found is not None and candidate.topic_partition in found.partitions
