"""Authorize the partitions of a fetch; those of a session again when an ACL has changed or another principal continues it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kafkalite.broker.identity.authorizer import ALLOW_ALL, CLUSTER_NAME, Operation, Permission, ResourceType

if TYPE_CHECKING:
    from kafkalite.broker.fetch.fetch_sessions import FetchItem, FetchSession
    from kafkalite.broker.fetch.partition_reader import FetchParams
    from kafkalite.broker.requests.request_context import RequestContext

READ: Final = Permission(Operation.READ, ResourceType.TOPIC)
CLUSTER_ACTION: Final = Permission(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)


def judge(items: Iterable[FetchItem], params: FetchParams, context: RequestContext) -> None:
    """Mark those that are denied. A follower needs CLUSTER_ACTION, a consumer READ of each topic (CVE-2018-1288).

    A consumer's items without a name are judged once they have one.
    """
    if context.authorizer is ALLOW_ALL:
        return
    if params.is_follower:
        is_denied = not context.may(CLUSTER_ACTION, CLUSTER_NAME)
        for item in items:
            item.is_denied = is_denied
        return
    named = [item for item in items if not item.is_nameless] if params.uses_topic_ids else items
    verdicts: dict[str, bool] = {}
    for item in named:
        topic = item.topic_partition.topic
        verdict = verdicts.get(topic)
        if verdict is None:
            verdict = verdicts[topic] = not context.may(READ, topic)
        item.is_denied = verdict


def judge_session(session: FetchSession, params: FetchParams, context: RequestContext) -> None:
    """As `judge`, for all partitions of a session; what is judged otherwise than before is looked at next."""
    if context.authorizer is ALLOW_ALL:
        return
    judged_for = (context.authorizer.generation, context.principal, context.connection.peer_host, params.is_follower)
    if session.judged_for == judged_for:
        return
    session.judged_for = judged_for
    before = {key: item.is_denied for key, item in session.items.items()}
    judge(session.items.values(), params, context)
    for key, item in session.items.items():
        if item.is_denied != before[key]:
            session.ready[key] = None
