"""The transactions of a producer: what the coordinators are asked, when, and what becomes of it (KIP-98; Kafka's TransactionManager).

`transaction_state` says what may happen when; this does it. A call of the program starts a task that asks until the coordinators have
decided, and waits for it only so long: a call that ran out of time can be made again, and waits on. The sender asks `admits` before it
sends a partition's first batch, and gives up batches for which `reason_to_give_up` has a reason.

What keeps a transaction whole:
- EndTxn goes out when the fate of every batch is known and no other request of the transaction is under way: what arrived behind the
  markers would begin a transaction that nobody ends.
- Batches that have sequence numbers are sent until they are answered, also in a transaction that is being aborted, since brokers would
  refuse the next numbers otherwise. Where such a batch is given up all the same, its producer takes another epoch after the abort, in
  which numbers begin again (KIP-360).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkalite.backoff import Backoff
from kafkalite.client.cluster.client import ClusterClient
from kafkalite.client.errors import (
    ClientClosedError,
    ClientError,
    ClientTimeoutError,
    FatalTransactionError,
    TransactionAbortedError,
    TransactionError,
    TransactionStateError,
)
from kafkalite.client.group.coordinator_link import CoordinatorKind, CoordinatorLink, Lane
from kafkalite.client.group.metadata import GroupMetadata
from kafkalite.client.offsets import OffsetAndMetadata
from kafkalite.client.producer import transaction_requests as requests
from kafkalite.client.producer.options import ProducerOptions
from kafkalite.client.producer.sequence_numbers import ProducerIdAndEpoch, SequenceNumbers
from kafkalite.client.producer.transaction_requests import Verdict, is_fatal_for_batch, verdict_of
from kafkalite.client.producer.transaction_state import Event, Lifecycle, PreparedTransaction, State
from kafkalite.errors import ErrorCode, InvariantBroken
from kafkalite.lifecycle import end_tasks
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.protocol.messages import Request

log = logging.getLogger(__name__)

_BEHIND_ANOTHER = Backoff(2, 20, 0.2)
"""While the transaction before is still being ended: some milliseconds. Kafka's client waits 20 ms each time."""
_ABORTABLE = (Verdict.ABORTABLE, Verdict.BUMP)
_NOT_OF_THE_CLUSTER = (TransactionStateError, TransactionError, TransactionAbortedError, ClientClosedError)


class TransactionManager:
    """Carries out the transactions of one producer at the coordinators (KIP-98). `flush` waits until no batch is unfinished;
    `on_change` hears of every change that the sender should see."""

    def __init__(
        self,
        cluster: ClusterClient,
        options: ProducerOptions,
        sequences: SequenceNumbers,
        flush: Callable[[], Awaitable[None]],
        on_change: Callable[[], None],
    ) -> None:
        self.transactional_id = options.transactional_id or ""
        self._cluster = cluster
        self._timeout_ms = options.transaction_timeout_ms
        self._request_timeout_s = options.request_timeout_ms / 1000
        self._sequences = sequences
        self._flush = flush
        self._on_change = on_change
        self._lifecycle = Lifecycle()
        self._link = CoordinatorLink(cluster, self.transactional_id, CoordinatorKind.TRANSACTION)
        self._group_links: dict[str, CoordinatorLink] = {}
        self._identity: ProducerIdAndEpoch | None = None
        self._added: set[TopicPartition] = set()
        self._new: dict[TopicPartition, None] = {}
        self._adding: asyncio.Task[None] | None = None
        self._offsets: dict[asyncio.Task[None], None] = {}
        self._operation: tuple[Event, asyncio.Task[None]] | None = None
        self._started = False
        """Does the coordinator know of the transaction?"""
        self._bump_needed = False

    # what the program asks for

    async def initialize(self, timeout_s: float) -> None:
        """Get the producer id, and end what an earlier producer of the transactional id left open. Errors as `commit`."""
        await self._operate(Event.INIT, self._initialize, timeout_s)

    def begin_transaction(self) -> None:
        """Begin a transaction. TransactionStateError, FatalTransactionError."""
        self._lifecycle.request_event(Event.BEGIN)
        self._operation = None
        self._on_change()

    async def commit(self, timeout_s: float) -> None:
        """Deliver all records and commit. TransactionStateError, AbortableTransactionError, FatalTransactionError, ClientTimeoutError."""
        await self._operate(Event.COMMIT, self._commit, timeout_s)

    async def prepare(self, timeout_s: float) -> PreparedTransaction | None:
        """Deliver all records, and leave the end to somebody else; None when there is nothing to end. Errors as `commit`."""
        await self._operate(Event.PREPARE, self._prepare, timeout_s)
        identity = self._known_identity()
        if not self._started:
            return None
        return PreparedTransaction(self.transactional_id, identity.producer_id, identity.producer_epoch)

    async def abort(self, timeout_s: float) -> None:
        """Give up records that are not sent yet, and abort. TransactionStateError, FatalTransactionError, ClientTimeoutError."""
        await self._operate(Event.ABORT, self._abort, timeout_s)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata, timeout_s: float
    ) -> None:
        """Let `offsets` become the group's together with the transaction. Errors as `commit`."""
        self._lifecycle.request_event(Event.OFFSETS)
        if not offsets:
            return
        task = asyncio.get_running_loop().create_task(self._send_offsets(offsets, group))
        self._offsets[task] = None
        task.add_done_callback(self._offsets.pop)
        await self._in_time(task, Event.OFFSETS, timeout_s)
        self._raise_error()

    @property
    def may_be_aborted(self) -> bool:
        """True if `abort` is allowed now."""
        return self._lifecycle.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR, State.ABORTING)

    async def _operate(self, event: Event, work: Callable[[], Coroutine[Any, Any, None]], timeout_s: float) -> None:
        if self._operation is None or self._operation[0] is not event:
            self._lifecycle.request_event(event)
            self._operation = event, asyncio.get_running_loop().create_task(self._run_guarded(work))
            self._on_change()
        await self._in_time(self._operation[1], event, timeout_s)
        self._operation = None
        self._raise_error()

    async def _in_time(self, task: asyncio.Task[None], event: Event, timeout_s: float) -> None:
        done, _ = await asyncio.wait([task], timeout=timeout_s)
        if not done:
            raise ClientTimeoutError(
                f"{event.value} did not end within {timeout_s:g} s; it goes on, and can be called again"
            )
        if task.cancelled():
            raise ClientClosedError("the producer")

    def _raise_error(self) -> None:
        if self._lifecycle.error is not None:
            raise self._lifecycle.error

    async def _run_guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Await `work`; an unexpected error breaks the producer, because its callers would wait for ever otherwise."""
        try:
            await work()
        except ClientClosedError as problem:
            self._record_failure(problem, fatal=True)
        except Exception as problem:
            log.error("a transaction failed", exc_info=problem)
            self._record_failure(
                FatalTransactionError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the producer broke: {problem!r}"), fatal=True
            )

    # what is done

    async def _initialize(self) -> None:
        if await self._acquire_identity(None):
            self._lifecycle.complete_event(Event.INITIALIZED)
            self._on_change()

    async def _acquire_identity(self, old: ProducerIdAndEpoch | None) -> bool:
        what = f"initializing transactional id {self.transactional_id}"
        message = requests.init_producer_id(self.transactional_id, self._timeout_ms, old)
        oldest = requests.OLDEST_INIT_FOR_BUMP if old is not None else 0

        async def attempt() -> None:
            response = await self._link.request(
                message, Lane.TRANSACTIONS, self._request_timeout_s, oldest_version=oldest
            )
            self._identity = requests.identity_in(response, what)

        if await self._ask_until_decided(self._link, attempt, abortable=()) is not Verdict.DONE:
            return False
        self._sequences.restart(self._identity)
        return True

    async def _prepare(self) -> None:
        await self._flush()
        await self._wait_for_requests()

    async def _commit(self) -> None:
        await self._prepare()
        if self._lifecycle.state is State.COMMITTING and (
            not self._started or await self._end_transaction(commit=True)
        ):
            self._finish_transaction()

    async def _abort(self) -> None:
        self._new.clear()
        await self._wait_for_requests()
        await self._flush()
        if self._started and not await self._end_transaction(commit=False):
            return
        if not self._bump_needed or await self._acquire_identity(self._identity):
            self._finish_transaction()

    async def _wait_for_requests(self) -> None:
        """Wait for the other requests of the transaction."""
        under_way = [*self._offsets, *([self._adding] if self._adding is not None else [])]
        if under_way:
            await asyncio.wait(under_way)

    def _finish_transaction(self) -> None:
        self._added.clear()
        self._new.clear()
        self._started = self._bump_needed = False
        self._lifecycle.complete_event(Event.ENDED)
        self._on_change()

    async def _end_transaction(self, *, commit: bool) -> bool:
        what = f"{'committing' if commit else 'aborting'} a transaction of {self.transactional_id}"
        identity = self._known_identity()

        message = messages.end_txn_request.EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            committed=commit,
        )
        abortable = _ABORTABLE if commit else (Verdict.BUMP,)
        attempt = partial(self._request_change, message, what)
        verdict = await self._ask_until_decided(self._link, attempt, abortable=abortable)
        # A coordinator that forgot the producer has no transaction of it either.
        return verdict is Verdict.DONE or (verdict is Verdict.BUMP and not commit)

    async def _request_change(self, message: Request[Any], what: str) -> None:
        requests.check_answer(await self._link.request(message, Lane.TRANSACTIONS, self._request_timeout_s), what)

    async def _send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> None:
        await self._run_guarded(lambda: self._commit_offsets(offsets, group))

    async def _commit_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> None:
        what = f"sending offsets of group {group.group_id} to a transaction of {self.transactional_id}"
        identity = self._known_identity()

        message = messages.add_offsets_to_txn_request.AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            group_id=group.group_id,
        )
        add = partial(self._request_change, message, what)
        if await self._ask_until_decided(self._link, add) is not Verdict.DONE:
            return
        self._started = True
        link = self._group_links.get(group.group_id)
        if link is None:
            link = self._group_links[group.group_id] = CoordinatorLink(self._cluster, group.group_id)

        async def commit() -> None:
            message = requests.txn_offset_commit(self.transactional_id, identity, group, offsets)
            response = await link.request(message, Lane.OFFSETS, self._request_timeout_s)
            requests.check_offsets(response, offsets, what)

        await self._ask_until_decided(link, commit)

    async def _add_partitions(self) -> None:
        try:
            await self._run_guarded(self._add_new_partitions)
        finally:
            self._adding = None
            self._on_change()

    async def _add_new_partitions(self) -> None:
        what = f"adding partitions to a transaction of {self.transactional_id}"
        identity = self._known_identity()
        while self._new:
            asked = tuple(self._new)

            async def attempt(asked: Iterable[TopicPartition] = asked) -> None:
                response = await self._link.request(
                    requests.add_partitions(self.transactional_id, identity, asked),
                    Lane.TRANSACTIONS,
                    self._request_timeout_s,
                    newest_version=requests.NEWEST_ADD_PARTITIONS,
                )
                requests.check_added(response, asked, what)

            if await self._ask_until_decided(self._link, attempt) is not Verdict.DONE:
                return
            self._started = True
            self._added.update(asked)
            for each in asked:
                self._new.pop(each, None)
            self._on_change()

    async def _ask_until_decided(
        self,
        link: CoordinatorLink,
        attempt: Callable[[], Awaitable[None]],
        *,
        abortable: Collection[Verdict] = _ABORTABLE,
    ) -> Verdict:
        """Ask until the coordinator has decided. A refusal becomes the transaction's error; one that is not `abortable` is fatal."""
        failures = behind_another = 0
        while True:
            try:
                await attempt()
                return Verdict.DONE
            except ClientClosedError:
                raise
            except ClientError as error:
                problem, verdict = error, verdict_of(error)
            except OSError as error:
                log.debug("a coordinator cannot be asked: %s", error)
                verdict = Verdict.MOVED
            if verdict is Verdict.MOVED:
                link.forget()
            elif verdict is not Verdict.AGAIN:
                self._bump_needed = self._bump_needed or verdict is Verdict.BUMP
                self._record_failure(problem, fatal=verdict not in abortable)
                return verdict
            if verdict is Verdict.AGAIN and problem.code is ErrorCode.CONCURRENT_TRANSACTIONS:
                behind_another += 1
                delay_ms = _BEHIND_ANOTHER.delay_ms(behind_another, self._cluster.chance())
            else:
                failures += 1
                delay_ms = self._cluster.retry.delay_ms(failures, self._cluster.chance())
            await asyncio.sleep(delay_ms / 1000)

    def _known_identity(self) -> ProducerIdAndEpoch:
        if self._identity is None:
            raise InvariantBroken("a transaction has a producer id")
        return self._identity

    def _record_failure(self, problem: ClientError, *, fatal: bool) -> None:
        self._lifecycle.record_failure(problem, fatal=fatal)
        if fatal and not isinstance(problem, ClientClosedError):
            log.error("the producer with transactional id %s is broken: %s", self.transactional_id, problem)
        self._on_change()

    # what the sender asks, and tells

    @property
    def refusal(self) -> ClientError | None:
        """Return the reason why records cannot be sent now; None in a transaction."""
        return self._lifecycle.refusal

    def admits(self, topic_partition: TopicPartition) -> bool:
        """True if batches of this partition may be sent. At first it is added at the coordinator, with others that come meanwhile."""
        if topic_partition in self._added:
            return True
        if self._lifecycle.state in (State.IN_TRANSACTION, State.PREPARED, State.COMMITTING):
            self._new[topic_partition] = None
            if self._adding is None:
                self._adding = asyncio.get_running_loop().create_task(self._add_partitions())
        return False

    def reason_to_give_up(self, *, numbered: bool) -> ClientError | None:
        """Return why a waiting batch is not to be sent any more; None when it is. `numbered` ones are, unless all is lost."""
        state = self._lifecycle.state
        if state is State.FATAL_ERROR or (state is State.ABORTABLE_ERROR and not numbered):
            return self._lifecycle.error
        return TransactionAbortedError() if state is State.ABORTING and not numbered else None

    def fail_batch(self, problem: Exception, *, numbered: bool) -> None:
        """A batch was given up: the transaction cannot be committed any more."""
        self._bump_needed = self._bump_needed or numbered
        self.fail_record(problem)

    def fail_record(self, problem: Exception) -> None:
        """A record of the transaction does not reach the cluster."""
        if isinstance(problem, ClientError) and not isinstance(problem, _NOT_OF_THE_CLUSTER):
            self._record_failure(problem, fatal=is_fatal_for_batch(problem))

    def fail_producer(self, problem: ClientError) -> None:
        """The sender broke: nothing of this producer is sent any more."""
        self._record_failure(problem, fatal=True)

    async def close(self) -> None:
        """Let go of connections; what is under way ends."""
        adding = [self._adding] if self._adding else []
        await end_tasks([*self._offsets, *adding, *(self._operation[1:] if self._operation else ())])
        for link in (self._link, *self._group_links.values()):
            link.close()
