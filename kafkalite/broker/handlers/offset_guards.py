"""Guards of OffsetCommit, OffsetFetch and OffsetDelete: a permission of the group, and one of each topic."""

from __future__ import annotations

from typing import Final

from kafkalite.broker.identity.authorizer import DELETE_GROUP, DESCRIBE_GROUP, DESCRIBE_TOPIC, READ_TOPIC
from kafkalite.broker.requests.failures import Failure
from kafkalite.broker.requests.guards import Each, Judged, narrow
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.errors import ErrorCode
from kafkalite.portions import Work
from kafkalite.protocol import messages

_ERROR_OF_GROUP_FROM: Final = 2
"""Before, each partition has it."""
EACH_TOPIC_READ: Final = Each(READ_TOPIC, "topics", "topics")
EACH_TOPIC_DESCRIBED: Final = Each(DESCRIBE_TOPIC, "topics", "topics")


def guard_deletion(
    parts: object, request: messages.OffsetDeleteRequest, context: RequestContext, failure: Failure
) -> Work[Judged]:
    """Refuse topics one by one. The coordinator is asked in any case, because an error of the group comes first."""
    m = messages.offset_delete_response
    context.require(DELETE_GROUP, request.group_id)
    allowed, refused = yield from EACH_TOPIC_READ.divide_items(request, context)
    if not refused:
        return Judged(request)

    def complete(reply: messages.OffsetDeleteResponse) -> Work[messages.OffsetDeleteResponse]:
        for topic in refused if not reply.error_code else ():
            yield
            answers = [
                m.OffsetDeleteResponsePartition(
                    partition_index=each.partition_index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
                for each in topic.partitions
            ]
            reply.topics.append(m.OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
        return reply

    return Judged(narrow(request, topics=allowed), complete)


def guard_fetch(
    parts: object, request: messages.OffsetFetchRequest, context: RequestContext, failure: Failure
) -> Work[Judged]:
    """Refuse groups one by one; topics that the caller may not see are refused where they are named, else left out."""
    m = messages.offset_fetch_response
    allowed, refused_groups = [], []
    refused_topics: dict[str, list[messages.offset_fetch_request.OffsetFetchRequestTopics]] = {}
    for group in request.groups:
        yield
        if context.api_version < _ERROR_OF_GROUP_FROM:
            context.require(DESCRIBE_GROUP, group.group_id)
        elif not context.may(DESCRIBE_GROUP, group.group_id):
            refused_groups.append(
                m.OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            )
            continue
        if group.topics is not None:
            seen, unseen = yield from EACH_TOPIC_DESCRIBED.divide_items(group, context)
            if unseen:
                refused_topics.setdefault(group.group_id, []).extend(unseen)
                group = narrow(group, topics=seen)
        allowed.append(group)

    def complete(reply: messages.OffsetFetchResponse | None) -> Work[messages.OffsetFetchResponse]:
        reply = reply or m.OffsetFetchResponse()
        for group in reply.groups:
            yield
            if group.error_code:
                continue
            seen, _ = yield from EACH_TOPIC_DESCRIBED.divide_items(group, context, is_asked=False)
            group.topics = [*seen, *(_topic_refused(each) for each in refused_topics.get(group.group_id, ()))]
        reply.groups += refused_groups
        return reply

    return Judged(narrow(request, groups=allowed, topics=[]) if allowed else None, complete)


def _topic_refused(
    topic: messages.offset_fetch_request.OffsetFetchRequestTopics,
) -> messages.offset_fetch_response.OffsetFetchResponseTopics:
    m = messages.offset_fetch_response
    partitions = [
        m.OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=-1,
            metadata="",
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
        for index in topic.partition_indexes
    ]
    return m.OffsetFetchResponseTopics(name=topic.name, partitions=partitions)
