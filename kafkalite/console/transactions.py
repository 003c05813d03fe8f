"""Transactions: those that coordinators know, and those that hang in partitions without one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.admin.transactions import LONGEST_TRANSACTION_MS
from kafkalite.console.parameters import BadRequestError, Parameters, cut_page
from kafkalite.types import NO_BROKER, TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin
    from kafkalite.console.survey import Survey

_STATES: Final = ("", "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
_DEADLINE_S: Final = 10.0
MOST_PARTITIONS: Final = 5_000
"""Partitions that are searched for hanging transactions at once."""


async def transaction_list(admin: Admin, asked: Parameters) -> dict[str, Any]:
    """Return a page of transactional ids, those of the page with what their coordinators know of them. Raises TimeoutError."""
    state = asked.one_of("state", _STATES, "")
    wanted = asked.text("filter", longest=1000).lower()
    async with asyncio.timeout(_DEADLINE_S):
        listed = await admin.list_transactions([state] if state else ())
        page = cut_page([each for each in listed if wanted in each.transactional_id.lower()], *asked.page())
        described = await admin.describe_transactions([each.transactional_id for each in page["rows"]])
    rows = [{**each.to_dict(), **described[each.transactional_id].to_dict()} for each in page["rows"]]
    return {**page, "rows": rows, "all": len(listed)}


async def hanging(admin: Admin, survey: Survey, asked: Parameters) -> dict[str, Any]:
    """Return the transactions of `topic` (empty: of all topics) that no coordinator will end, without a record for `minutes`."""
    name = asked.text("topic", longest=300).strip()
    if name and name not in survey.topics:
        raise BadRequestError(f"there is no topic {name} that this console may describe")
    topics = [survey.topics[name]] if name else list(survey.topics.values())
    places = [
        TopicPartition(topic.name, each.partition)
        for topic in topics
        for each in topic.partitions
        if each.leader != NO_BROKER and each.leader not in survey.state.silent_brokers()
    ]
    if len(places) > MOST_PARTITIONS:
        raise BadRequestError(f"{len(places):,} partitions are too many to search at once; name a topic")
    longest_ms = asked.number("minutes", LONGEST_TRANSACTION_MS // 60_000, 0, 10**6) * 60_000
    found = await admin.find_hanging_transactions(places, longest_transaction_ms=longest_ms)
    return {"rows": [each.to_dict() for each in found], "searched": len(places)}
