"""Lists of topics, filtered, sorted and paged here, so that ten thousand of them cost a browser no more than fifty; and one topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.errors import ClientError
from kafkalite.console.parameters import Parameters, cut_page
from kafkalite.types import NO_BROKER, TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin, ConfigEntry, TopicDescription
    from kafkalite.console.survey import Survey


_DEADLINE_S: Final = 2.0
"""Time that brokers have for the offsets and settings of a topic, which are requested while a page waits."""


def topic_list(survey: Survey, asked: Parameters) -> dict[str, Any]:
    """Return a page of topics: `filter` is a part of the name, `sort` a column, `internal` and `unwell` select some, `name` that one. Only
    the rows of the page are made.
    """
    if asked.has("name"):
        named = survey.topics.get(asked.text("name", longest=300))
        page = cut_page([] if named is None else [named], 0, 1)
        return {**page, "rows": [_row(survey, topic) for topic in page["rows"]], "all": len(survey.topics)}
    wanted = asked.text("filter", longest=300).lower()
    with_internal, only_unwell = asked.flag("internal"), asked.flag("unwell")
    found = [
        topic
        for name, topic in survey.topics.items()
        if wanted in name.lower() and (with_internal or not topic.is_internal) and (not only_unwell or _unwell(topic))
    ]
    sort = asked.one_of("sort", ("name", *_SORTS), "name")
    if sort != "name":
        figure = _SORTS[sort]
        found.sort(key=lambda topic: figure(survey, topic), reverse=True)
    page = cut_page(found[::-1] if asked.flag("reverse") else found, *asked.page())
    return {**page, "rows": [_row(survey, topic) for topic in page["rows"]], "all": len(survey.topics)}


def _offline(topic: TopicDescription) -> int:
    return sum(each.leader == NO_BROKER for each in topic.partitions)


def _unwell(topic: TopicDescription) -> int:
    """Return the number of partitions with problems. Offline partitions, which are under-replicated too, count twice."""
    return _offline(topic) + sum(each.under_replicated for each in topic.partitions)


_SORTS: Final[dict[str, Callable[[Survey, TopicDescription], float]]] = {
    "partitions": lambda _, topic: len(topic.partitions),
    "bytes": lambda survey, topic: survey.topic_bytes.get(topic.name, -1),
    "records_per_s": lambda survey, topic: survey.rates.get(topic.name, -1.0),
    "unwell": lambda _, topic: _unwell(topic),
}
"""Sort keys of topics by column, the greatest first."""


def _row(survey: Survey, topic: TopicDescription) -> dict[str, Any]:
    offline, unwell = _offline(topic), _unwell(topic)
    return {
        "name": topic.name,
        "is_internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replicas": max((len(each.replicas) for each in topic.partitions), default=0),
        "offline": offline,
        "under_replicated": unwell - offline,
        "bytes": survey.topic_bytes.get(topic.name),
        "records_per_s": survey.rates.get(topic.name),
    }


async def one_topic(admin: Admin, survey: Survey, name: str, *, with_settings: bool = True) -> dict[str, Any]:
    """Return partitions with offsets and sizes, settings with their sources, and the last hour. Raises UNKNOWN_TOPIC_OR_PARTITION.

    Leaders and ISRs are those of the survey, as in the list of topics. What does not answer in time is left out, and `offsets_problem` and
    `settings_problem` say why.
    """
    topic = survey.topics.get(name)
    if topic is None:  # made a moment ago, or not at all
        (topic,) = await admin.describe_topics([name])
    (starts, problem), (ends, _), (settings, settings_problem) = await asyncio.gather(
        _offsets_of(admin, survey, topic, "earliest"),
        _offsets_of(admin, survey, topic, "latest"),
        _settings_of(admin, name) if with_settings else _no_settings(),
    )
    partitions = []
    for each in topic.partitions:
        place = TopicPartition(name, each.partition)
        sizes = survey.sizes.get(place, {})
        partitions.append(
            {
                **each.to_dict(),
                "is_silent": survey.state.is_unanswering(each.leader),
                "start_offset": starts.get(place),
                "end_offset": ends.get(place),
                "bytes": sizes.get(each.leader),
                "bytes_by_broker": {str(broker): size for broker, size in sorted(sizes.items())},
            }
        )
    return {
        **_row(survey, topic),
        "topic_id": topic.topic_id,
        "partition_list": partitions,
        "offsets_problem": problem,
        "settings": setting_rows(settings),
        "settings_problem": settings_problem,
        "history": survey.watched_topics.of(name).to_dict(),
    }


async def _offsets_of(
    admin: Admin, survey: Survey, topic: TopicDescription, position: str
) -> tuple[dict[TopicPartition, int], str | None]:
    """Return the first or last offsets of partitions whose leaders answer in time, and why those of others are not known."""
    silent = survey.state.silent_brokers()
    led: dict[int, list[TopicPartition]] = {}
    problems = []
    for each in topic.partitions:
        if each.leader in silent:
            problems.append(f"broker {each.leader} does not answer")
        elif each.leader != NO_BROKER:
            led.setdefault(each.leader, []).append(TopicPartition(topic.name, each.partition))
    offsets: dict[TopicPartition, int] = {}

    async def ask(leader: int) -> None:
        try:
            async with asyncio.timeout(_DEADLINE_S):
                found = await admin.list_offsets(dict.fromkeys(led[leader], position), described={topic.name: topic})
        except TimeoutError:
            problems.append(f"broker {leader} did not tell offsets within {_DEADLINE_S:g} s")
        except (ClientError, OSError) as problem:
            problems.append(str(problem))
        else:
            offsets.update({place: answer.offset for place, answer in found.items() if answer is not None})

    await asyncio.gather(*map(ask, led))
    return offsets, "; ".join(dict.fromkeys(problems)) or None


async def _no_settings() -> tuple[dict[str, ConfigEntry], None]:
    return {}, None


async def _settings_of(admin: Admin, name: str) -> tuple[dict[str, ConfigEntry], str | None]:
    """Return the settings of a topic, or none and why; who may see a topic need not be one who may see its settings."""
    try:
        async with asyncio.timeout(_DEADLINE_S):
            return await admin.describe_configs("topic", name, documentation=True, synonyms=True), None
    except TimeoutError:
        return {}, f"no broker told the settings within {_DEADLINE_S:g} s"
    except (ClientError, OSError) as problem:
        return {}, str(problem)


def setting_rows(settings: dict[str, ConfigEntry]) -> list[dict[str, Any]]:
    """Return settings, first those that are not defaults; sensitive ones have no value."""
    rows = []
    for name, entry in sorted(settings.items(), key=lambda item: (item[1].is_default, item[0])):
        row = {**entry.to_dict(), "is_default": entry.is_default}
        if entry.is_sensitive:
            row |= {"value": None, "synonyms": [{**each, "value": None} for each in row["synonyms"]]}
        rows.append({**row, "name": name})
    return rows
