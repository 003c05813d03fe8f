"""Which topics consumers subscribe to: the part of the consumers' own embedded protocol that the coordinator reads.

subscription: version i16, topics array of strings, then what the coordinator does not look at
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkalite.coordinators.fields import FieldReader

CONSUMER_PROTOCOL = "consumer"
_NAMES_MAX = 50_000
"""Topics that are read at the end of a join phase, which takes 50 ms. Where there are more, all topics count as subscribed."""


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics that any of the subscriptions names; None when one of them cannot be read, or when they name too many.

    Members mostly subscribe to the same topics: what begins as the one before is not read again.
    """
    topics: set[str] = set()
    left, before = _NAMES_MAX, None
    try:
        for subscription in subscriptions:
            if before is not None and subscription.startswith(before):
                continue
            fields = FieldReader(subscription)
            if fields.i16() < 0:
                return None
            count = fields.count()
            left -= count
            if left < 0:
                return None
            topics.update(fields.string() for _ in range(count))
            before = subscription[: fields.position]
    except ValueError:
        return None
    return frozenset(topics)
