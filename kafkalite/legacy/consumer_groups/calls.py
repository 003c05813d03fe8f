"""Requests of `kafka-consumer-groups` for the groups of one command, and its error messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kafkalite.legacy.command_line.failures import BrokerFailure, ToolError
from kafkalite.legacy.consumer_groups.options import ALL_GROUPS, GROUP, TIMEOUT

if TYPE_CHECKING:
    from kafkalite.legacy.cluster.admin_session import AdminSession
    from kafkalite.legacy.command_line.option_parser import Options


class Groups:
    """The groups of one command, and the requests for them."""

    def __init__(self, options: Options, session: AdminSession) -> None:
        self.options, self.session = options, session
        self.timeout_ms: int = options.value(TIMEOUT)

    async def ids(self) -> list[str]:
        return await self.all_ids() if self.options.has(ALL_GROUPS) else list(dict.fromkeys(self.options.values(GROUP)))

    async def all_ids(self) -> list[str]:
        try:
            return [each.group_id for each in await self.list_groups(())]
        except BrokerFailure as problem:
            raise in_runtime_exception(problem) from None

    async def list_groups(self, states: Sequence[str]) -> list[Any]:
        from kafkalite.errors import ErrorCode

        try:
            return await self.session.call(
                "findAllBrokers", lambda admin: admin.groups.list_groups(states), self.timeout_ms
            )
        except BrokerFailure as problem:
            if problem.code != ErrorCode.REQUEST_TIMED_OUT:
                raise
            message = "Failed to find brokers to send ListGroups"
            raise BrokerFailure(problem.code, message, "org.apache.kafka.common.KafkaException") from None

    async def describe_groups(self) -> dict[str, Any]:
        ids = await self.ids()
        name = "describeConsumerGroups(api=FIND_COORDINATOR)"
        found = await self.session.call(name, lambda admin: admin.groups.describe_groups(ids), self.timeout_ms)
        return dict(sorted(found.items()))


def in_runtime_exception(problem: BrokerFailure) -> ToolError:
    """Return the error in the RuntimeException in which Kafka's tool wraps errors of futures."""
    return ToolError(str(problem.of_future()), "java.lang.RuntimeException")


def print_error(message: str) -> None:
    print(f"\nError: {message}")
