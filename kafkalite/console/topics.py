"""Lists of topics, filtered, sorted and paged here, so that ten thousand of them cost a browser no more than fifty; and one topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.errors import ClientError
from kafkalite.console.parameters import Parameters, cut_page
from kafkalite.types import NO_BROKER, TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin, ConfigEntry, TopicDescription
    from kafkalite.console.survey import Survey


def topic_list(survey: Survey, asked: Parameters) -> dict[str, Any]:
    """Return a page of topics: `filter` is a part of the name, `sort` a column, `internal` and `unwell` select some. Only the rows of the
    page are made.
    """
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


async def one_topic(admin: Admin, survey: Survey, name: str) -> dict[str, Any]:
    """Return partitions with offsets and sizes, settings with their sources, and the last hour. Raises UNKNOWN_TOPIC_OR_PARTITION."""
    (topic,) = await admin.describe_topics([name])
    led = [TopicPartition(name, each.partition) for each in topic.partitions if each.leader != NO_BROKER]
    starts = await admin.list_offsets(dict.fromkeys(led, "earliest"), described={name: topic})
    ends = await admin.list_offsets(dict.fromkeys(led, "latest"), described={name: topic})
    settings: dict[str, ConfigEntry] = {}
    problem = None
    try:
        settings = await admin.describe_configs("topic", name, documentation=True, synonyms=True)
    except ClientError as refused:  # who may see a topic need not be one who may see its settings
        problem = str(refused)
    partitions = []
    for each in topic.partitions:
        place = TopicPartition(name, each.partition)
        start, end = starts.get(place), ends.get(place)
        sizes = survey.sizes.get(place, {})
        partitions.append(
            {
                **each.to_dict(),
                "start_offset": start.offset if start else None,
                "end_offset": end.offset if end else None,
                "bytes": sizes.get(each.leader),
                "bytes_by_broker": {str(broker): size for broker, size in sorted(sizes.items())},
            }
        )
    return {
        **_row(survey, topic),
        "topic_id": topic.topic_id,
        "partition_list": partitions,
        "settings": setting_rows(settings),
        "settings_problem": problem,
        "history": survey.watched_topics.of(name).to_dict(),
    }


def setting_rows(settings: dict[str, ConfigEntry]) -> list[dict[str, Any]]:
    """Return settings, first those that are not defaults; sensitive ones have no value."""
    rows = []
    for name, entry in sorted(settings.items(), key=lambda item: (item[1].is_default, item[0])):
        row = {**entry.to_dict(), "is_default": entry.is_default}
        if entry.is_sensitive:
            row |= {"value": None, "synonyms": [{**each, "value": None} for each in row["synonyms"]]}
        rows.append({**row, "name": name})
    return rows
