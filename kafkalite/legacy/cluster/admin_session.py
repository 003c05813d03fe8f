"""Our admin client for the tools: it waits for the cluster, and its errors are worded as Kafka's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkalite.backoff import Backoff
from kafkalite.errors import ErrorCode
from kafkalite.legacy.cluster.client_settings import options_for, read_properties_file, security_of
from kafkalite.legacy.cluster.servers import check_servers
from kafkalite.legacy.command_line.failures import BrokerFailure

if TYPE_CHECKING:
    from kafkalite.client.admin.options import AdminOptions
    from kafkalite.client.cluster.client import ClusterClient
    from kafkalite.client.errors import AdminError, ClientError
    from kafkalite.legacy.cluster.admin_parts import AdminParts

Result = TypeVar("Result")

_SETTINGS: Final = (
    "bootstrap.servers",
    "client.id",
    "default.api.timeout.ms",
    "request.timeout.ms",
    "retry.backoff.ms",
)
_WAIT_FOR_CLUSTER: Final = Backoff(50, 1000)


def admin_properties(path: str | None, servers: str, **defaults: str) -> dict[str, str]:
    """Return the settings of the admin client for these servers: `defaults` (with underscores), replaced by those of the file at `path`.
    Raises ToolError.
    """
    found = {name.replace("_", "."): value for name, value in defaults.items()}
    if path is not None:
        found.update(read_properties_file(path))
    check_servers(servers)
    return {**found, "bootstrap.servers": servers}


class AdminSession:
    """A connection to the cluster, opened at the first call.

    `properties` are those of Kafka's admin client; those without a counterpart in ours are ignored.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._options = _options_of(properties)
        self._cluster: ClusterClient | None = None
        self._request_timeout_ms = self._options.request_timeout_ms
        self._api_timeout_ms = self._options.default_api_timeout_ms

    async def call(
        self, name: str, work: Callable[[AdminParts], Awaitable[Result]], timeout_ms: int | None = None
    ) -> Result:
        """Return the result of `work`. `name` is the name of the call in Kafka's client, used in its message that no broker answers.

        Raises BrokerFailure with the message of Kafka's client.
        """
        from kafkalite.client.errors import AdminError, ClientError, ClientTimeoutError, NoBrokersAvailableError

        try:
            async with asyncio.timeout((self._api_timeout_ms if timeout_ms is None else timeout_ms) / 1000):
                return await work(await self._connect())
        except (NoBrokersAvailableError, ClientTimeoutError, OSError, TimeoutError):
            raise _timeout_failure(name) from None
        except AdminError as problem:
            raise _failure_of_items(problem, name) from None
        except ClientError as problem:
            raise _failure_of(problem, name) from None

    async def _connect(self) -> AdminParts:
        """Connect, repeatedly until the cluster answers. `call` bounds the time."""
        from kafkalite.client.cluster.client import ClusterClient
        from kafkalite.client.errors import NoBrokersAvailableError
        from kafkalite.legacy.cluster.admin_parts import AdminParts

        failures = 0
        while self._cluster is None:
            cluster = ClusterClient(self._options)
            try:
                await cluster.connect(self._api_timeout_ms / 1000)
                self._cluster = cluster
            except NoBrokersAvailableError:
                failures += 1
                await asyncio.sleep(_WAIT_FOR_CLUSTER.delay_ms(failures) / 1000)
            finally:
                if self._cluster is None:
                    await cluster.close()
        return AdminParts(self._cluster, self._request_timeout_ms, self._api_timeout_ms)

    async def close(self) -> None:
        if self._cluster is not None:
            await self._cluster.close()


def _options_of(properties: Mapping[str, str]) -> AdminOptions:
    """Return the options of our client. Raises ToolError for an invalid setting."""
    from kafkalite.client.admin.options import AdminOptions

    known = {name: properties[name] for name in _SETTINGS if name in properties}
    return AdminOptions(**options_for(AdminOptions, known), **security_of(properties))


def _failure_of_items(problem: AdminError, call: str) -> BrokerFailure:
    """Return the first failure for the whole call, as in Java, with the failures of all items."""
    failures = {name: _failure_of(each, call) for name, each in problem.failures.items()}
    first = next(iter(failures.values()))
    return BrokerFailure(first.code, first.message or "", first.java_class.rpartition(".")[2], failures, problem.done)


def _failure_of(problem: ClientError, call: str) -> BrokerFailure:
    """Return an error of our client as Kafka's. Kafka's client waits for an unreachable broker until its timeout."""
    from kafkalite.legacy.java.errors import java_errors

    if problem.code is ErrorCode.BROKER_NOT_AVAILABLE:
        return _timeout_failure(call)
    errors = java_errors()
    java_class, default = errors.get(problem.code, errors[-1])
    message = default if problem.broker_message is None else problem.broker_message
    return BrokerFailure(int(problem.code), message, java_class)


def _timeout_failure(name: str) -> BrokerFailure:
    return BrokerFailure(
        ErrorCode.REQUEST_TIMED_OUT, f"Timed out waiting for a node assignment. Call: {name}", "TimeoutException"
    )


def with_admin(properties: Mapping[str, str], work: Callable[[AdminSession], Coroutine[Any, Any, Result]]) -> Result:
    """Run a tool's coroutine with a session that is closed after it."""

    async def run() -> Result:
        session = AdminSession(properties)
        try:
            return await work(session)
        finally:
            await session.close()

    return asyncio.run(run())
