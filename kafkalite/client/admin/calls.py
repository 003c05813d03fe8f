"""What all parts of `Admin` share: a cluster to ask, a bound for each call, and the book-keeping of calls over several items."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.client.cluster.client import ClusterClient
from kafkalite.client.errors import AdminError, ClientError, error_in, error_of, raise_error
from kafkalite.client.group.coordinator_link import CoordinatorKind, find_coordinator
from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.protocol.messages import Message, Request

Result = TypeVar("Result")
ResponseT = TypeVar("ResponseT", bound="Message")
Key = TypeVar("Key")
Value = TypeVar("Value")


class AdminCalls:
    """Base of the parts of `Admin`: requests to brokers, controller and coordinators, bounded in time. A part used alone is made over a
    connected cluster, which its caller closes."""

    def __init__(self, cluster: ClusterClient, request_timeout_ms: int, default_api_timeout_ms: int) -> None:
        self._cluster = cluster
        self._request_timeout_ms = request_timeout_ms
        self._api_timeout_s = default_api_timeout_ms / 1000

    def _timeout(self, timeout_ms: int | None) -> int:
        return self._request_timeout_ms if timeout_ms is None else timeout_ms

    async def _retrying(self, attempt: Callable[[], Awaitable[Result]], what: str) -> Result:
        """Call `attempt` until it raises no retriable error or the time is up.

        ClientError UNKNOWN_SERVER_ERROR for an answer that lacks what was asked for.
        """
        try:
            return await self._cluster.retrying(attempt, what, self._api_timeout_s)
        except LookupError as problem:
            raise error_of(ErrorCode.UNKNOWN_SERVER_ERROR, what, f"the answer lacks {problem}") from problem

    async def _ask_controller(self, request: Request[ResponseT]) -> ResponseT:
        """Send a request to the controller; its response."""
        if self._cluster.view.controller_id < 0:
            await self._cluster.refresh()
        controller = self._cluster.view.controller_id
        if controller < 0:
            raise ClientError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller now")
        return await self._cluster.request(controller, request)

    async def _ask(self, broker: int | None, request: Request[ResponseT], what: str) -> ResponseT:
        """Send a request to one broker, or to any; its response. Tries again while the broker cannot be reached."""

        async def attempt() -> ResponseT:
            return await (
                self._cluster.request_any(request) if broker is None else self._cluster.request(broker, request)
            )

        return await self._retrying(attempt, what)

    async def _ask_checked(self, broker: int, request: Request[ResponseT], what: str) -> ResponseT:
        """Send a request to one broker as `_ask` does, also again while the response is a retriable error; any other is raised."""

        async def attempt() -> ResponseT:
            response = await self._cluster.request(broker, request)
            raise_error(response, what)
            return response

        return await self._retrying(attempt, what)

    async def _at_coordinator(
        self,
        key: str,
        request: Any,
        read: Callable[[Any, int], Result],
        what: str,
        kind: CoordinatorKind = CoordinatorKind.GROUP,
    ) -> Result:
        """Return what `read` makes of the response of the coordinator of `key` and of its broker id. It is found for each attempt."""

        async def attempt() -> Result:
            coordinator = int((await find_coordinator(self._cluster, key, kind)).node_id)
            if coordinator not in self._cluster.view.brokers:
                await self._cluster.refresh()
            return read(await self._cluster.request(coordinator, request), coordinator)

        return await self._retrying(attempt, what)

    async def _brokers(self) -> list[int]:
        """Return the brokers that live now."""
        await self._retrying(self._cluster.refresh, "finding the brokers")
        return list(self._cluster.view.brokers)

    async def _watch_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Bring the leaders of partitions into the view. ClientError UNKNOWN_TOPIC_OR_PARTITION for a topic that is not there."""
        topics = sorted({each.topic for each in partitions})
        await self._cluster.fetch_topics(topics)
        self._cluster.watch_topics(topics)
        await self._cluster.refresh()

    def _group_by_leader(self, wanted: Mapping[TopicPartition, Value]) -> dict[int, dict[TopicPartition, Value]]:
        grouped: dict[int, dict[TopicPartition, Value]] = {}
        for each, value in wanted.items():
            known = self._cluster.view.partition(each)
            if known is None:
                raise error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(each))
            if known.leader < 0:
                raise error_of(ErrorCode.LEADER_NOT_AVAILABLE, str(each))
            grouped.setdefault(known.leader, {})[each] = value
        return grouped


def ensure_count(answers: Sequence[Any], count: int, what: str) -> None:
    """ClientError UNKNOWN_SERVER_ERROR for more or fewer than `count` answers."""
    if len(answers) != count:
        raise error_of(ErrorCode.UNKNOWN_SERVER_ERROR, what, f"the answer has {len(answers)} items instead of {count}")


def one_of(answers: Sequence[Any], what: str) -> Any:
    """Return the only answer. ClientError UNKNOWN_SERVER_ERROR for none, and for several."""
    ensure_count(answers, 1, what)
    return answers[0]


class Results:
    """The items of a call that are done, and those that failed, by their text, over several attempts. `doing` begins the errors' texts.

    NOT_CONTROLLER asks for another attempt, of partitions' leaders (`of_leaders`) each retriable error. Codes of `successes` are none.
    """

    def __init__(self, doing: str, *, of_leaders: bool = False, successes: Collection[ErrorCode] = ()) -> None:
        self.done: dict[str, Any] = {}
        self.failures: dict[str, ClientError] = {}
        self._doing, self._of_leaders, self._successes = doing, of_leaders, successes

    def lacks(self, item: object) -> bool:
        """True if the item has no answer yet."""
        return str(item) not in self.done and str(item) not in self.failures

    def record_answers(self, answers: Iterable[tuple[object, Any, Any]]) -> None:
        """Note answers, each with its item and the item's result; then raise the last error that calls for another attempt."""
        again: ClientError | None = None
        for item, answer, result in answers:
            error = error_in(answer, f"{self._doing} {item}")
            if error is None or error.code in self._successes:
                self.done[str(item)] = result
            elif error.retriable if self._of_leaders else error.code is ErrorCode.NOT_CONTROLLER:
                again = error
            else:
                self.failures[str(item)] = error
        if again is not None:
            raise again

    def ensure_complete(self, asked: Iterable[object]) -> None:
        """Raise ClientError UNKNOWN_SERVER_ERROR for the first of `asked` that has no answer."""
        for each in filter(self.lacks, asked):
            raise ClientError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the answer lacks {each}")

    def raise_failures(self) -> None:
        if self.failures:
            raise AdminError(self.failures, self.done)


async def all_of(calls: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Return the results of calls that go on at once; the first error ends the others."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def each_of(keys: Iterable[Key], call: Callable[[Key], Coroutine[Any, Any, Result]]) -> dict[Key, Result]:
    """Call for every key at once; AdminError, by the keys' text, when some fail, after all were tried."""
    wanted = list(dict.fromkeys(keys))
    failures: dict[Key, ClientError] = {}
    done: dict[Key, Result] = {}

    async def one(key: Key) -> None:
        try:
            done[key] = await call(key)
        except ClientError as problem:
            failures[key] = problem

    await all_of(one(key) for key in wanted)
    if failures:
        raise AdminError({str(key): failures[key] for key in wanted if key in failures})
    return {key: done[key] for key in wanted}


def raise_failures(doing: str, answers: Iterable[tuple[object, Any]], done: Mapping[str, Any] | None = None) -> None:
    """Raise an AdminError for the items whose answers are errors, by the items' text."""
    failures = {
        str(item): error for item, answer in answers if (error := error_in(answer, f"{doing} {item}")) is not None
    }
    if failures:
        raise AdminError(failures, done)
