"""Which topics consumers subscribe to: the part of the consumers' own embedded protocol that the coordinator reads.

subscription: version i16, topics array of strings, then what the coordinator does not look at
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkalite.coordinators.fields import FieldReader

CONSUMER_PROTOCOL = "consumer"


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics that any of the subscriptions names; None when one of them cannot be read."""
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            fields = FieldReader(subscription)
            if fields.i16() < 0:
                return None
            topics.update(fields.string() for _ in range(fields.count()))
    except ValueError:
        return None
    return frozenset(topics)
