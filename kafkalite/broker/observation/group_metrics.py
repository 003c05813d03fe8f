"""Metrics of the groups that this broker coordinates, and, from the controller, of those in ZooKeeper.

Of at most `kafkalite.metrics.max.groups`, those with the greatest lag, and of each at most `groups.TOPICS_SHOWN` topics likewise. A group
that commits to both has both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kafkalite.broker.observation.exposition import Family, Sample, gauge, gauges, label_text
from kafkalite.broker.observation.groups import GroupView
from kafkalite.coordinators.group.group import GroupState


def families(groups: Sequence[GroupView], most_groups: int) -> Iterator[Family]:
    """Return the numbers of groups by state, and the lag by group and topic, and members."""
    states = Counter({str(state): 0 for state in GroupState})
    states.update(group.state for group in groups)
    yield gauges("kafkalite_groups", "Groups that this broker coordinates, by state.", "state", states.items())
    told = sorted(groups, key=lambda group: (-group.lag, group.group_id))[:most_groups]
    yield from _lags("group", "Members of a group.", told)
    yield gauge(
        "kafkalite_metrics_omitted_groups",
        "Groups that are not told, for there are more than kafkalite.metrics.max.groups.",
        len(groups) - len(told),
    )


def zookeeper_families(groups: Sequence[GroupView], omitted: int) -> Iterator[Family]:
    """Return the same families for groups whose consumers commit to ZooKeeper; `omitted` more were not read."""
    yield from _lags("zookeeper_group", "Consumers of a group that are registered in ZooKeeper.", groups)
    yield gauge(
        "kafkalite_metrics_omitted_zookeeper_groups",
        "Groups in ZooKeeper that are not told, for there are more than kafkalite.metrics.max.groups.",
        omitted,
    )


def _lags(kind: str, members_help: str, groups: Sequence[GroupView]) -> Iterator[Family]:
    lags, worst, members = [], [], []
    for group in sorted(groups, key=lambda group: group.group_id):
        members.append(Sample(label_text(group=group.group_id), group.members))
        for topic, lag in group.shown_topics:
            label = label_text(group=group.group_id, topic=topic)
            lags.append(Sample(label, lag.total))
            worst.append(Sample(label, lag.worst))
    yield Family(
        f"kafkalite_{kind}_lag_records", "gauge", "Committed offsets behind the ends, summed over a topic.", lags
    )
    yield Family(f"kafkalite_{kind}_lag_max_records", "gauge", "Lag of the topic's slowest partition.", worst)
    yield Family(f"kafkalite_{kind}_members", "gauge", members_help, members)
