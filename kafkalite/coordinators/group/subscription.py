"""Topics in the subscriptions of consumers, the only part of the embedded consumer protocol that the coordinator reads.

subscription: version i16, topics array of strings, then fields that are not read
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkalite.coordinators.fields import FieldReader

CONSUMER_PROTOCOL = "consumer"
_NAMES_MAX = 50_000
"""Topic names that are read at the end of a join phase, which takes 50 ms; with more all topics count as subscribed."""


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of all subscriptions; None when one is unreadable, or when they name too many.

    Members mostly subscribe to the same topics: a subscription with the same start as the one before is not read again.
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
