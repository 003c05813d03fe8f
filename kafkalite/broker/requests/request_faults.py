"""Requests that fail, wait or are lost on purpose, for tests of those who send them. Nothing here is loaded by a broker that is not armed.

A rule names an API and, if it likes, a topic, a partition and a client; of the requests that it is about it takes the `nth` and
`times - 1` more. Its action is one of

    fail         the request is not carried out; all that it asks for is answered with the rule's error code
    delay        it is carried out so many milliseconds later, and nothing behind it on its connection before
    drop         it is neither carried out nor answered, as if it had been lost; its client waits for as long as it likes
    drop-answer  it is carried out and not answered: what a client must repeat though it was done

The first rule that takes a request decides; a request counts for every rule that it is about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from kafkalite.broker.requests.request_fields import copy_shared_records
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.apis import ApiKey

if TYPE_CHECKING:
    from kafkalite.broker.requests.request_context import RequestContext
    from kafkalite.broker.requests.served_api import ServedApi
    from kafkalite.protocol.messages import Message

ACTIONS: Final = ("fail", "delay", "drop", "drop-answer")
_TOPIC_FIELDS: Final = ("topic", "name", "topic_name")
_PARTITION_FIELDS: Final = ("partition", "partition_index", "index")

TopicName = Callable[[bytes], str | None]
"""The name of a topic id, if it is known."""


@dataclass
class Rule:
    """One fault and the requests that it is for.

    `seen` counts these requests, `hits` those that the fault was applied to; `times` None: all from the `nth` on.
    """

    api: ApiKey
    action: str
    error: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
    delay_ms: int = 0
    nth: int = 1
    times: int | None = 1
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    seen: int = 0
    hits: int = 0

    @classmethod
    def parse(cls, wish: Mapping[str, Any]) -> Rule:
        """Return the rule of these fields, `api` and `error` by Kafka's names. Raises ValueError."""
        known = {field.name for field in fields(cls)} - {"seen", "hits"}
        if unknown := wish.keys() - known:
            raise ValueError(f"a rule has no {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}")
        try:
            found = dict(wish) | {"api": ApiKey[wish["api"]]}
            if "error" in wish:
                found["error"] = ErrorCode[wish["error"]]
        except KeyError as problem:
            raise ValueError(f"there is no API or error {problem}") from None
        rule = cls(**found)
        if rule.action not in ACTIONS:
            raise ValueError(f"{rule.action!r} is no action; there are {', '.join(ACTIONS)}")
        if rule.nth < 1 or rule.delay_ms < 0 or (rule.times is not None and rule.times < 1):
            raise ValueError("nth and times count from 1, and a delay is not negative")
        return rule

    def takes(self, key: ApiKey, client_id: str | None, named: Callable[[], Iterable[tuple[str, int | None]]]) -> bool:
        """Count a request, and return True if it is this rule's. `named` are its topics and partitions."""
        if key is not self.api or (self.client_id is not None and client_id != self.client_id):
            return False
        if (self.topic is not None or self.partition is not None) and not any(
            (self.topic is None or topic == self.topic) and (self.partition is None or partition == self.partition)
            for topic, partition in named()
        ):
            return False
        self.seen += 1
        taken = self.seen >= self.nth and (self.times is None or self.seen < self.nth + self.times)
        self.hits += taken
        return taken


class RequestFaults:
    """The rules of one broker, by their numbers; `around` puts them before its handlers."""

    def __init__(self) -> None:
        self.rules: dict[int, Rule] = {}
        self._numbers = 0
        self.unanswered: set[asyncio.Future[Any]] = set()
        """What requests that are never answered wait for; the loop alone would forget it."""

    def add(self, rule: Rule) -> int:
        """Add a rule, and return its number."""
        self._numbers += 1
        self.rules[self._numbers] = rule
        return self._numbers

    def around(self, served: Iterable[ServedApi[Any]], topic_name: TopicName) -> list[ServedApi[Any]]:
        """Return the APIs with handlers that apply the rules first, also rules that are added later."""
        return [replace(each, handle=self._handler(each, topic_name), fast_path=None) for each in served]

    def decide(self, key: ApiKey, request: Message, client_id: str | None, topic_name: TopicName) -> Rule | None:
        """Return the rule that takes a request, if any does."""
        taking = [
            rule for rule in self.rules.values() if rule.takes(key, client_id, lambda: named_in(request, topic_name))
        ]
        return taking[0] if taking else None

    def _handler(self, served: ServedApi[Any], topic_name: TopicName) -> Callable[[Any, Any, RequestContext], Any]:
        key = ApiKey(served.api.key)

        async def later(rule: Rule, parts: Any, request: Any, context: RequestContext) -> Any:
            if rule.action == "delay":
                await asyncio.sleep(rule.delay_ms / 1000)
            if rule.action != "drop":
                reply = served.handle(parts, request, context)
                if served.is_async or isinstance(reply, asyncio.Future):
                    reply = await reply  # type: ignore[misc]
                if rule.action == "delay":
                    return reply
            return await self._never()

        def apply_rule(parts: Any, request: Any, context: RequestContext) -> Any:
            """Apply the rule that takes the request and return its outcome, NotImplemented if no rule does."""
            rule = self.decide(key, request, context.client_id, topic_name)
            if rule is None:
                return NotImplemented
            if rule.action == "fail":
                raise KafkaError(rule.error, "a fault on purpose")
            context.connection.stop_pipelining()
            if key is ApiKey.PRODUCE:
                copy_shared_records(request, context.request_bytes)
            return asyncio.get_running_loop().create_task(later(rule, parts, request, context))

        def handle(parts: Any, request: Any, context: RequestContext) -> Any:
            outcome = apply_rule(parts, request, context)
            return served.handle(parts, request, context) if outcome is NotImplemented else outcome

        async def handle_async(parts: Any, request: Any, context: RequestContext) -> Any:
            outcome = apply_rule(parts, request, context)
            return await (served.handle(parts, request, context) if outcome is NotImplemented else outcome)  # type: ignore[misc]

        return handle_async if served.is_async else handle

    def _never(self) -> asyncio.Future[Any]:
        lost = asyncio.get_running_loop().create_future()
        self.unanswered.add(lost)
        lost.add_done_callback(self.unanswered.discard)
        return lost


def named_in(message: Any, topic_name: TopicName) -> Iterator[tuple[str, int | None]]:
    """Yield the topics that a request names with each partition that it names, with None if it names none."""
    for array in message.FIELDS:
        if not array.is_array:
            continue
        for item in getattr(message, array.name) or ():
            if isinstance(item, str):
                if array.name in ("topics", "topic_names"):
                    yield item, None
            elif hasattr(item, "FIELDS"):
                yield from _named_by(item, topic_name)


def _named_by(item: Any, topic_name: TopicName) -> Iterator[tuple[str, int | None]]:
    topic = next(
        (found for name in _TOPIC_FIELDS if isinstance(found := getattr(item, name, None), str) and found), None
    )
    if topic is None and isinstance(topic_id := getattr(item, "topic_id", None), bytes):
        topic = topic_name(topic_id)
    if topic is None:
        yield from named_in(item, topic_name)  # batched APIs have the topics one level lower
        return
    partitions: list[int | None] = []
    for array in item.FIELDS:
        if array.is_array:
            for each in getattr(item, array.name) or ():
                number = each if isinstance(each, int) else _first_of(each, _PARTITION_FIELDS)
                if isinstance(number, int):
                    partitions.append(number)
    for partition in partitions or [None]:
        yield topic, partition


def _first_of(item: Any, names: Iterable[str]) -> Any:
    return next((getattr(item, name) for name in names if hasattr(item, name)), None)
