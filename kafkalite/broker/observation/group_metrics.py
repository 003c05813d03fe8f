"""Metrics of the groups that this broker coordinates.

Of at most `kafkalite.metrics.max.groups`, those with the greatest lag, and of each at most `groups.TOPICS_SHOWN` topics likewise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kafkalite.broker.observation.exposition import Family, Sample, gauge, label_text
from kafkalite.broker.observation.groups import GroupView
from kafkalite.coordinators.group.group import GroupState


def families(groups: Sequence[GroupView], most_groups: int) -> Iterator[Family]:
    """How many groups there are in which state; lag by group and topic; members."""
    states = Counter({str(state): 0 for state in GroupState})
    states.update(group.state for group in groups)
    yield Family(
        "kafkalite_groups",
        "gauge",
        "Groups that this broker coordinates, by state.",
        [Sample(label_text(state=state), count) for state, count in states.items()],
    )
    told = sorted(groups, key=lambda group: (-group.lag, group.group_id))[:most_groups]
    lags, worst, members = [], [], []
    for group in sorted(told, key=lambda group: group.group_id):
        members.append(Sample(label_text(group=group.group_id), group.members))
        for topic, lag in group.shown_topics:
            label = label_text(group=group.group_id, topic=topic)
            lags.append(Sample(label, lag.total))
            worst.append(Sample(label, lag.worst))
    yield Family(
        "kafkalite_group_lag_records", "gauge", "Committed offsets behind the ends, summed over a topic.", lags
    )
    yield Family("kafkalite_group_lag_max_records", "gauge", "Lag of the topic's slowest partition.", worst)
    yield Family("kafkalite_group_members", "gauge", "Members of a group.", members)
    yield gauge(
        "kafkalite_metrics_omitted_groups",
        "Groups that are not told, for there are more than kafkalite.metrics.max.groups.",
        len(groups) - len(told),
    )
