"""One client's way to the cluster: bootstrap, metadata kept fresh, one connection per broker.

What brokers tell is not trusted further than it must be: only topics that were asked for are kept, only some brokers of which none answered
yet are tried before the bootstrap servers, and connections to addresses that metadata does not name any more are closed.

Shared by producer, consumer and admin. The view of the cluster is replaced by each metadata answer; `refresh()` asks for a new one,
and calls that meet share one round (at most one round runs and one waits). A broker that cannot be reached is left alone for a backoff
that grows with each failure.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.client.cluster.heap import keep_freed_memory
from kafkalite.client.cluster.retry import is_retriable, is_retriable_code
from kafkalite.client.cluster.secured import SecuredConnections
from kafkalite.client.cluster.view import ClusterView, drop_unreliable_epochs, views_of
from kafkalite.client.errors import (
    ClientClosedError,
    ClientError,
    ClientTimeoutError,
    error_of,
    raise_error,
    unreachable,
)
from kafkalite.client.options import ConnectionOptions
from kafkalite.errors import AuthenticationError, ErrorCode
from kafkalite.lifecycle import end_tasks
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.server_addresses import parse_servers

if TYPE_CHECKING:
    from kafkalite.protocol.messages import Message, Request

Result = TypeVar("Result")
ResponseT = TypeVar("ResponseT", bound="Message")

log = logging.getLogger(__name__)

_CONNECTION_TIMEOUT_S = 10.0
_DROPPED_TOO = frozenset({ApiKey.DESCRIBE_LOG_DIRS})
"""APIs that are also asked in versions that Kafka 4 has dropped: brokers before 2.0 speak no other, and they say the same."""
_UNTRIED_BROKERS = 3
"""Brokers without a connection that are asked for metadata in one round, before the bootstrap servers."""


class _BrokerLink:
    """The connection to one broker, opened at need; failures are spaced by the retry policy."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.opening: asyncio.Task[Connection] | None = None
        self.failures = 0
        self.not_before_s = 0.0
        self.problem = ""
        self.was_open = False


class ClusterClient:
    """The metadata of a cluster and one connection per broker, shared by the parts of a client. `chance` gives the random numbers
    in [0, 1) that spread retries."""

    def __init__(self, options: ConnectionOptions) -> None:
        self.servers = parse_servers(options.bootstrap_servers)
        self.client_id = options.client_id
        self.request_timeout_s = options.request_timeout_ms / 1000
        self.retry = options.retry_backoff
        self.view = ClusterView()
        self.chance = options.chance or random.random
        self._metadata_max_age_s = options.metadata_max_age_ms / 1000
        self._max_response_bytes = options.receive_message_max_bytes
        self._secured = SecuredConnections(options)
        self._opener = options.opener or self._open
        self._links: dict[tuple[str, int], _BrokerLink] = {}
        self._topics: set[str] = set()
        self._all_topics = False
        self._auto_create = False
        self._running_round: asyncio.Task[None] | None = None
        self._waiting_round: asyncio.Task[None] | None = None
        self._listeners: list[Callable[[], None]] = []
        self._keeper: asyncio.Task[None] | None = None
        self._nudge = asyncio.Event()
        self._cluster_changed = False
        self._closed = False

    async def connect(self, timeout: float = 10.0) -> None:
        """Reach the cluster and learn its brokers; `timeout` in seconds.

        Raises NoBrokersAvailableError, which names what went wrong with each server, as soon as all have failed. One that knows of no
        broker, since it has just started, is asked again until the time is over.
        """
        self._check_open()
        keep_freed_memory()
        reasons: dict[str, str | Exception] = {}
        attempts = [asyncio.ensure_future(self._bootstrap(server, reasons)) for server in self.servers]
        try:
            async with asyncio.timeout(timeout):
                for attempt in asyncio.as_completed(attempts):
                    if await attempt:
                        self._start_keeper()
                        return
        except TimeoutError:
            for host, port in self.servers:
                reasons.setdefault(f"{host}:{port}", f"no answer within {timeout:g} s")
        finally:
            await end_tasks(attempts)
        raise unreachable(reasons)

    async def _bootstrap(self, server: tuple[str, int], reasons: dict[str, str | Exception]) -> bool:
        try:
            connection = await self._ensure_connection(server)
            for asked in count(1):
                await self._ask_metadata(connection)
                if self.view.brokers:
                    return True
                reasons[f"{server[0]}:{server[1]}"] = "it knows of no broker yet"
                await asyncio.sleep(self.retry.delay_ms(asked, self.chance()) / 1000)
        except (OSError, ClientError) as problem:
            reasons[f"{server[0]}:{server[1]}"] = problem
        return False

    def _start_keeper(self) -> None:
        if self._keeper is None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep_fresh(), name="kafkalite-metadata")

    async def close(self) -> None:
        """Close all connections; calls that wait fail."""
        self._closed = True
        openings = [link.opening for link in self._links.values()]
        tasks = [self._keeper, self._running_round, self._waiting_round, *openings]
        await end_tasks(task for task in tasks if task is not None)
        for link in self._links.values():
            if link.connection is not None:
                link.connection.close()
        self._links.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosedError("the client")

    # connections

    async def _open(self, host: str, port: int) -> Connection:
        connection = await self._secured.open(
            host, port, self.client_id, _CONNECTION_TIMEOUT_S, self._max_response_bytes
        )
        try:
            await connection.negotiate(_CONNECTION_TIMEOUT_S)
        except ConnectionError as problem:
            connection.close()
            hint = f"is it a Kafka broker's {self._secured.protocol} port?"
            raise ConnectionError(f"{problem} before it told its API versions; {hint}") from problem
        except BaseException:
            connection.close()
            raise
        return connection

    async def _ensure_connection(self, address: tuple[str, int]) -> Connection:
        """Return the open connection to `address`, made if need be. ConnectionError or TimeoutError."""
        self._check_open()
        link = self._links.setdefault(address, _BrokerLink())
        if link.connection is not None and not link.connection.closed:
            return link.connection
        if link.opening is None:
            link.opening = asyncio.get_running_loop().create_task(self._open_link(address, link))
            link.opening.add_done_callback(_retrieve)  # whoever waits for it may be cancelled first
        return await asyncio.shield(link.opening)

    async def _open_link(self, address: tuple[str, int], link: _BrokerLink) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            wait_s = link.not_before_s - loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            link.connection = await self._opener(*address)
            link.failures, link.problem, link.was_open = 0, "", True
            return link.connection
        except OSError as problem:
            link.failures += 1
            if not (link.was_open or address in self.servers or isinstance(problem, AuthenticationError)):
                problem = _of_advertised(problem)
            link.problem = str(problem)
            link.not_before_s = loop.time() + self.retry.delay_ms(link.failures, self.chance()) / 1000
            self._nudge.set()  # whoever was led by that broker may have moved
            raise problem
        finally:
            link.opening = None
            self._notify()

    def open_connection(self, broker_id: int) -> Connection | None:
        """Return the broker's connection when it is open now; otherwise None, and opening has begun (listeners hear of its end)."""
        node = self.view.brokers.get(broker_id)
        if node is None or self._closed:
            return None
        link = self._links.setdefault((node.host, node.port), _BrokerLink())
        if link.connection is not None and not link.connection.closed:
            return link.connection
        if link.opening is None:
            link.opening = asyncio.get_running_loop().create_task(self._open_link((node.host, node.port), link))
            link.opening.add_done_callback(_retrieve)
        return None

    def problem_of(self, broker_id: int) -> str:
        """Return the error of the last attempt to connect to the broker; empty when that succeeded."""
        node = self.view.brokers.get(broker_id)
        link = self._links.get((node.host, node.port)) if node else None
        return link.problem if link else ""

    async def open_separate(self, host: str, port: int) -> Connection:
        """Return a connection that the caller owns and closes. ConnectionError, TimeoutError."""
        self._check_open()
        return await self._opener(host, port)

    async def connection(self, broker_id: int) -> Connection:
        """Return the connection to a broker. ClientError BROKER_NOT_AVAILABLE when the view lacks it, ConnectionError, TimeoutError."""
        node = self.view.brokers.get(broker_id)
        if node is None:
            raise ClientError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not there")
        return await self._ensure_connection((node.host, node.port))

    def _addresses(self) -> list[tuple[str, int]]:
        """Return the addresses to ask for metadata: brokers with an open connection first, least busy first, bootstrap servers last.

        Of the other brokers it has a few, those that failed least: metadata may name a thousand that nobody can reach.
        """
        known = [(node.host, node.port) for node in self.view.brokers.values()]
        known.sort(key=self._reluctance)
        connected = sum(not self._reluctance(each)[0] for each in known)
        return list(dict.fromkeys([*known[: connected + _UNTRIED_BROKERS], *self.servers]))

    def _reluctance(self, address: tuple[str, int]) -> tuple[int, int]:
        link = self._links.get(address)
        if link is None:
            return 1, 0
        if link.connection is not None and not link.connection.closed:
            return 0, link.connection.in_flight
        return 1 + min(link.failures, 1), link.failures

    # requests

    async def request(
        self, broker_id: int, message: Request[ResponseT], *, max_version: int | None = None
    ) -> ResponseT:
        """Send `message` to one broker in the highest common version, `max_version` at most."""
        connection = await self.connection(broker_id)
        return await self._request_on(connection, message, max_version)

    async def _request_on(
        self, connection: Connection, message: Request[ResponseT], max_version: int | None = None
    ) -> ResponseT:
        version = version_for(connection, message, max_version)
        return await connection.request(message, version, self.request_timeout_s)

    async def request_any(self, message: Request[ResponseT]) -> ResponseT:
        """Send `message` to whichever broker answers; one that does not speak the API is passed over as long as there is another.

        Raises NoBrokersAvailableError when none answers, ClientError UNSUPPORTED_VERSION when those that answer do not speak it.
        """
        reasons: dict[str, str | Exception] = {}
        for address in self._addresses():
            try:
                return await self._request_on(await self._ensure_connection(address), message)
            except (OSError, ClientError) as problem:
                if not isinstance(problem, OSError) and problem.code is not ErrorCode.UNSUPPORTED_VERSION:
                    raise
                reasons[f"{address[0]}:{address[1]}"] = problem
        raise next((each for each in reasons.values() if isinstance(each, ClientError)), unreachable(reasons))

    async def retrying(self, attempt: Callable[[], Awaitable[Result]], what: str, timeout_s: float) -> Result:
        """Call `attempt` until it succeeds, fails for good, or `timeout_s` is over; metadata is refreshed in between.

        ClientTimeoutError names the last problem.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        failures = 0
        while True:
            self._check_open()
            try:
                return await attempt()
            except (OSError, ClientError) as problem:
                if not is_retriable(problem):
                    raise
                failures += 1
                delay_s = self.retry.delay_ms(failures, self.chance()) / 1000
                if loop.time() + delay_s >= deadline_s:
                    raise ClientTimeoutError(f"{what} did not succeed within {timeout_s:g} s: {problem}") from problem
            await asyncio.sleep(delay_s)
            await self.try_refresh()

    # metadata

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change of the view and after each attempt to connect."""
        self._listeners.append(listener)

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()

    def watch_topics(self, topics: Iterable[str], auto_create: bool = False) -> bool:
        """Keep these topics in the view; True when one of them is new, and a refresh is due."""
        new = set(topics) - self._topics
        self._topics |= new
        self._auto_create = self._auto_create or auto_create
        return bool(new)

    def watch_all_topics(self) -> bool:
        """Keep all topics of the cluster in the view; True when that is new, and a refresh is due."""
        new, self._all_topics = not self._all_topics, True
        return new

    def request_refresh(self) -> None:
        """Ask for fresh metadata without waiting for it."""
        self._nudge.set()

    async def refresh(self) -> None:
        """Fetch metadata; returns after an answer that was asked for not earlier than this call. NoBrokersAvailableError."""
        self._check_open()
        loop = asyncio.get_running_loop()
        if self._running_round is None:
            self._running_round = loop.create_task(self._refresh_once())
            self._running_round.add_done_callback(_retrieve)
            await asyncio.shield(self._running_round)
            return
        if self._waiting_round is None:
            self._waiting_round = loop.create_task(self._refresh_after(self._running_round))
            self._waiting_round.add_done_callback(_retrieve)
        await asyncio.shield(self._waiting_round)

    async def try_refresh(self) -> None:
        """`refresh()`, but a cluster that cannot be reached is no error: the view stays as it is."""
        try:
            await self.refresh()
        except (OSError, ClientError):
            self._check_open()

    async def _refresh_after(self, earlier: asyncio.Task[None]) -> None:
        await asyncio.wait([earlier])
        self._running_round, self._waiting_round = self._waiting_round, None
        await self._refresh_once()

    async def _refresh_once(self) -> None:
        task = asyncio.current_task()
        reasons: dict[str, str | Exception] = {}
        try:
            for address in self._addresses():
                try:
                    await self._ask_metadata(await self._ensure_connection(address))
                    return
                except (OSError, ClientError) as problem:
                    self._check_open()
                    reasons[f"{address[0]}:{address[1]}"] = problem
            raise unreachable(reasons)
        finally:
            if self._running_round is task:
                self._running_round = None

    async def _ask_metadata(self, connection: Connection) -> None:
        m = messages.metadata_request
        everything = self._all_topics
        topics = None if everything else [m.MetadataRequestTopic(name=name) for name in sorted(self._topics)]
        request = m.MetadataRequest(topics=topics, allow_auto_topic_creation=self._auto_create)
        response = drop_unreliable_epochs(await self._request_on(connection, request), version_for(connection, request))
        self._apply_metadata(response, everything)

    def _apply_metadata(self, response: messages.metadata_response.MetadataResponse, everything: bool) -> None:
        if not everything:
            response.topics = [each for each in response.topics if each.name in self._topics]
        if response.brokers or not self.view.brokers:
            before = self.view
            self.view = before.with_metadata(response, everything)
            is_another = before.cluster_id is not None and self.view.cluster_id != before.cluster_id
            if is_another and not self._cluster_changed:
                self._cluster_changed = True
                log.warning("brokers are of cluster %s now, not of %s", self.view.cluster_id, before.cluster_id)
            if before.brokers != self.view.brokers:
                self._drop_links()
            self._notify()

    def _drop_links(self) -> None:
        """Forget the addresses that nobody names any more, unless an answer is awaited from there."""
        named = {*self.servers, *((node.host, node.port) for node in self.view.brokers.values())}
        for address in [each for each in self._links if each not in named]:
            link = self._links[address]
            if link.opening is None and (link.connection is None or not link.connection.in_flight):
                if link.connection is not None:
                    link.connection.close()
                del self._links[address]

    async def fetch_topics(self, topics: Sequence[str]) -> ClusterView:
        """Return a view of these topics, asked for now; none is created. Does not change `view`.

        ClientError (UNKNOWN_TOPIC_OR_PARTITION, …) for the first topic that cannot be described.
        """
        m = messages.metadata_request
        request = m.MetadataRequest(
            topics=[m.MetadataRequestTopic(name=name) for name in topics], allow_auto_topic_creation=False
        )
        response = await self.retrying(lambda: self.request_any(request), "describing topics", self.request_timeout_s)
        for topic in response.topics:
            raise_error(topic, f"topic {topic.name}")
        view = ClusterView().with_metadata(response)
        for name in topics:
            if name not in view.topics:
                raise error_of(ErrorCode.UNKNOWN_SERVER_ERROR, f"topic {name}", "the answer lacks it")
        return view

    async def fetch_all_topics(self) -> ClusterView:
        """Return a view of every topic of the cluster, not only the watched ones; does not change `view`."""
        request = messages.metadata_request.MetadataRequest(topics=None, allow_auto_topic_creation=False)
        response = await self.retrying(lambda: self.request_any(request), "listing topics", self.request_timeout_s)
        for view in views_of(response):  # noqa: B007 -- the last one is whole
            await asyncio.sleep(0)
        return view

    async def _keep_fresh(self) -> None:
        """Refresh when nudged and when the view has reached its greatest age; failures are spaced by the retry policy."""
        failures = 0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._metadata_max_age_s):
                    await self._nudge.wait()
            self._nudge.clear()
            try:
                await self.refresh()
                failures = 0
            except ClientClosedError:
                return
            except (OSError, ClientError):
                failures += 1
                self._nudge.set()
            except Exception:
                log.exception("metadata could not be refreshed")
                failures += 1
                self._nudge.set()
            await asyncio.sleep(self.retry.delay_ms(max(failures, 1), self.chance()) / 1000)

    async def wait_for_topic(
        self, topic: str, timeout_s: float, auto_create: bool = False, partition: int | None = None
    ) -> None:
        """Wait until the view has partitions of `topic`, and `partition` among them: brokers learn of new ones one after the other.

        ClientError UNKNOWN_TOPIC_OR_PARTITION when it is not there in time, or at once when no broker would create it; ClientTimeoutError.
        """
        self.watch_topics([topic], auto_create)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        failures = 0
        while not self._knows(topic, partition):
            await self.try_refresh()
            if self._knows(topic, partition):
                return
            failures += 1
            code = self.view.topic_errors.get(topic, 0)
            if code and not is_retriable_code(code):
                raise error_of(code, f"topic {topic}")
            delay_s = self.retry.delay_ms(failures, self.chance()) / 1000
            if loop.time() + delay_s >= deadline_s:
                if code:
                    raise error_of(code, f"topic {topic}")
                if (known := self.view.topics.get(topic)) is not None:
                    there = f"partitions 0 to {len(known.partitions) - 1}, not {partition}"
                    raise ClientError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} has {there}")
                raise ClientTimeoutError(f"no metadata of topic {topic} within {timeout_s:g} s")
            await asyncio.sleep(delay_s)

    def _knows(self, topic: str, partition: int | None) -> bool:
        known = self.view.topics.get(topic)
        return known is not None and (partition is None or partition in known.partitions)


def version_for(connection: Connection, message: Message, max_version: int | None = None) -> int:
    """Return the highest version of `message` that both sides speak. ClientError UNSUPPORTED_VERSION when there is none."""
    try:
        version = connection.version_of(message.API.key, with_dropped=message.API.key in _DROPPED_TOO)
    except ValueError as problem:
        raise ClientError(ErrorCode.UNSUPPORTED_VERSION, str(problem)) from None
    return version if max_version is None else min(version, max_version)


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Nobody may be waiting for a background attempt: its failure is kept in its link, not reported as lost."""
    if not task.cancelled():
        task.exception()


def _of_advertised(problem: OSError) -> OSError:
    """Return the error with a hint, for an address that only a broker has named: if it is wrong, all other brokers work."""
    kind = TimeoutError if isinstance(problem, TimeoutError) else ConnectionError
    return kind(f"{problem} (its broker's advertised.listeners name that address; clients must reach it)")
