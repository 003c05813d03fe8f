"""Authorises the names in a request before its handler sees them, as `KafkaApis` does: refused items are answered, the rest is carried out.

A guard is named in the record of its API. It takes (parts, request, context, failure) and says what of the request its handler may do, and
how the answer is completed: with the items that were refused, in the shape that the API has for failures, or without what the
caller may not see. Guards are there only where an authorizer is configured; without one dispatch calls handlers as they are.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from kafkalite.broker.identity.authorizer import CLUSTER_NAME, Operation, Permission, ResourceType
from kafkalite.broker.requests.failures import Failure
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.errors import ErrorCode

if TYPE_CHECKING:
    from kafkalite.portions import Work
    from kafkalite.protocol.messages import Message

MessageT = TypeVar("MessageT", bound="Message")


class Judged(NamedTuple):
    """The part of the request that the handler may serve, None for nothing, and what completes its response, None if it was not called."""

    request: Message | None
    complete: Callable[[Any], Work[Any]] | None = None


Guard: TypeAlias = "Callable[[Any, Any, RequestContext, Failure], Work[Judged]]"
"""KafkaError when all of the request is refused."""


def narrow(message: MessageT, **fields: Any) -> MessageT:
    """Return a copy that differs in these fields."""
    other = copy.copy(message)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def judge_items(
    request: Message, field: str, allowed: list[Any], answers: str, refused: list[Any], failure: Failure
) -> Judged:
    """Return the judgement of a request of whose list `field` some items are allowed; the others add `refused` to the list `answers`."""
    if not refused:
        return Judged(request)

    def complete(reply: Any) -> Work[Any]:
        yield
        if reply is None:
            reply = failure(narrow(request, **{field: []}), ErrorCode.NONE, None)
        setattr(reply, answers, [*getattr(reply, answers), *refused])
        return reply

    return Judged(narrow(request, **{field: allowed}) if allowed else None, complete)


@dataclass(frozen=True, slots=True)
class Whole:
    """One resource for all of the request: a permission, and the field with its name."""

    permission: Permission
    field: str

    def __call__(self, parts: object, request: Any, context: RequestContext, failure: Failure) -> Work[Judged]:
        yield
        context.require(self.permission, getattr(request, self.field))
        return Judged(request)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of these permissions on the cluster, the last of which a refusal names in the log."""

    permissions: tuple[Permission, ...]

    def __call__(self, parts: object, request: Any, context: RequestContext, failure: Failure) -> Work[Judged]:
        yield
        if not any(context.may(each, CLUSTER_NAME, is_asked=False) for each in self.permissions[:-1]):
            context.require(self.permissions[-1], CLUSTER_NAME)
        return Judged(request)


@dataclass(frozen=True, slots=True)
class Each:
    """A permission for each item of a list; those without it are answered by the API's failure.

    `field` is the list in the request, `answers` that in the answer, `name` the field of an item, None where items are names themselves.
    """

    permission: Permission
    field: str
    answers: str
    name: str | None = "name"
    message: str | None = None
    unless: Permission | None = None
    """A permission on the cluster that makes the other unnecessary."""

    def __call__(self, parts: object, request: Any, context: RequestContext, failure: Failure) -> Work[Judged]:
        if self.unless is not None and context.may(self.unless, CLUSTER_NAME, is_asked=False):
            return Judged(request)
        allowed, refused = yield from self.divide_items(request, context)
        if not refused:
            return Judged(request)
        answers: list[Any] = []
        for item in refused:
            yield
            failed = failure(narrow(request, **{self.field: [item]}), self.permission.refusal, self.message)
            answers += getattr(failed, self.answers)
        return judge_items(request, self.field, allowed, self.answers, answers, failure)

    def divide_items(
        self, request: Any, context: RequestContext, *, is_asked: bool = True
    ) -> Work[tuple[list[Any], list[Any]]]:
        """Return the items that are allowed, and those that are not."""
        allowed: list[Any] = []
        refused: list[Any] = []
        verdicts: dict[str, bool] = {}
        for item in getattr(request, self.field) or ():
            yield
            name = item if self.name is None else getattr(item, self.name)
            verdict = verdicts.get(name)
            if verdict is None:
                verdict = verdicts[name] = context.may(self.permission, name, is_asked=is_asked)
            (allowed if verdict else refused).append(item)
        return allowed, refused


@dataclass(frozen=True, slots=True)
class EachConfig:
    """An operation on each resource of which settings are described or altered: on a topic, or for all others on the cluster."""

    operation: Operation
    answers: str
    has_message: bool = False

    def __call__(self, parts: object, request: Any, context: RequestContext, failure: Failure) -> Work[Judged]:
        allowed: list[Any] = []
        answers: list[Any] = []
        for item in request.resources:
            yield
            is_topic = item.resource_type == ResourceType.TOPIC
            permission = Permission(self.operation, ResourceType.TOPIC if is_topic else ResourceType.CLUSTER)
            if context.may(permission, item.resource_name if is_topic else CLUSTER_NAME):
                allowed.append(item)
            else:
                message = f"{permission.resource.name.capitalize()} authorization failed." if self.has_message else None
                refused = failure(narrow(request, resources=[item]), permission.refusal, message)
                answers += getattr(refused, self.answers)
        return judge_items(request, "resources", allowed, self.answers, answers, failure)


@dataclass(frozen=True, slots=True)
class Visible:
    """Of a list in the answer, what the caller may know of; the rest is left out without a word."""

    permission: Permission
    answers: str
    name: str
    unless: Permission | None = None

    def __call__(self, parts: object, request: Any, context: RequestContext, failure: Failure) -> Work[Judged]:
        yield
        if self.unless is not None and context.may(self.unless, CLUSTER_NAME, is_asked=False):
            return Judged(request)

        def complete(reply: Any) -> Work[Any]:
            seen = []
            for item in getattr(reply, self.answers):
                yield
                if context.may(self.permission, getattr(item, self.name), is_asked=False):
                    seen.append(item)
            setattr(reply, self.answers, seen)
            return reply

        return Judged(request, complete)


@dataclass(frozen=True, slots=True)
class Steps:
    """One guard after the other; the answer is completed in the reverse order."""

    guards: Sequence[Guard]

    def __call__(self, parts: object, request: Any, context: RequestContext, failure: Failure) -> Work[Judged]:
        completions = []
        for guard in self.guards:
            judged = yield from guard(parts, request, context, failure)
            if judged.complete is not None:
                completions.append(judged.complete)
            request = judged.request
            if request is None:
                break
        return Judged(request, _in_reverse(completions) if completions else None)


def _in_reverse(completions: list[Callable[[Any], Work[Any]]]) -> Callable[[Any], Work[Any]]:
    def complete(reply: Any) -> Work[Any]:
        for each in reversed(completions):
            reply = yield from each(reply)
        return reply

    return complete


Handle: TypeAlias = Callable[[Any, Any, RequestContext], Any]


def guard_handler(guard: Guard, handle: Handle, failure: Failure) -> Handle:
    """Return the handler behind its guard; it is no coroutine function, though it may return a future."""

    def guarded_handle(parts: Any, request: Any, context: RequestContext) -> Any:
        judged = context.portions.run(guard(parts, request, context, failure))
        if isinstance(judged, asyncio.Future):
            context.connection.stop_pipelining()
            return asyncio.ensure_future(_later(judged, handle, parts, context))
        return _call_handler(judged, handle, parts, context)

    return guarded_handle


def _call_handler(judged: Judged, handle: Handle, parts: Any, context: RequestContext) -> Any:
    """Return the caller's response, or a future of it."""
    reply = None if judged.request is None else handle(parts, judged.request, context)
    if inspect.iscoroutine(reply):
        reply = asyncio.ensure_future(reply)
    if judged.complete is None:
        return reply
    if isinstance(reply, asyncio.Future):
        return asyncio.ensure_future(_complete_later(reply, judged.complete, context))
    return context.portions.run(judged.complete(reply))


async def _later(judging: Awaitable[Judged], handle: Handle, parts: Any, context: RequestContext) -> Any:
    reply = _call_handler(await judging, handle, parts, context)
    return await reply if isinstance(reply, asyncio.Future) else reply


async def _complete_later(reply: Awaitable[Any], complete: Callable[[Any], Work[Any]], context: RequestContext) -> Any:
    return await context.portions.finish(complete(await reply))
