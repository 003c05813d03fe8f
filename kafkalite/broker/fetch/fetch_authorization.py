"""Authorize the partitions of a fetch; those of a session again when an ACL has changed or another principal continues it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.broker.fetch.fetch_sessions import UNKNOWN_NAME
from kafkalite.broker.identity.authorizer import ALLOW_ALL, CLUSTER_NAME, Operation, Permission, ResourceType

if TYPE_CHECKING:
    from kafkalite.broker.fetch.fetch_sessions import FetchSession
    from kafkalite.broker.requests.request_context import RequestContext

READ: Final = Permission(Operation.READ, ResourceType.TOPIC)
CLUSTER_ACTION: Final = Permission(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)


def is_denied(topic: str, is_follower: bool, context: RequestContext) -> bool:
    """True if the caller may not fetch the topic. A follower needs CLUSTER_ACTION, a consumer READ of the topic (CVE-2018-1288).

    A topic of which only the id is known is not denied: a consumer's permission is checked once the id has a name.
    """
    if context.authorizer is ALLOW_ALL:
        return False
    if is_follower:
        return not context.may(CLUSTER_ACTION, CLUSTER_NAME)
    return topic != UNKNOWN_NAME and not context.may(READ, topic)


def authorize_session(session: FetchSession, is_follower: bool, context: RequestContext) -> None:
    """Check the permissions of all partitions of a session; those with another outcome than before are read in this fetch."""
    if context.authorizer is ALLOW_ALL:
        return
    authorized_for = (context.authorizer.generation, context.principal, context.connection.peer_host, is_follower)
    if session.authorized_for == authorized_for:
        return
    session.authorized_for = authorized_for
    denied: dict[str, bool] = {}
    for key, item in session.items.items():
        topic = "" if is_follower else item.topic_partition.topic
        if topic not in denied:
            denied[topic] = is_denied(topic, is_follower, context)
        if item.is_denied != denied[topic]:
            item.is_denied = denied[topic]
            session.ready[key] = None
