"""The Fetch request of a consumer for partitions of one broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkalite.client.cluster.view import ClusterView
from kafkalite.client.consumer.fetch_buffer import PartitionState
from kafkalite.client.consumer.fetch_session import ConsumerFetchSession, FetchPosition
from kafkalite.client.consumer.options import ConsumerOptions
from kafkalite.protocol import messages


def make_fetch_request(
    options: ConsumerOptions,
    view: ClusterView,
    session: ConsumerFetchSession,
    states: Sequence[PartitionState],
    ids: Mapping[str, bytes],
    max_bytes: int,
    wait_ms: int,
    rack: str,
) -> messages.fetch_request.FetchRequest:
    """Return the request, which names what has changed since the last one of the session."""
    m = messages.fetch_request
    wanted = {}
    for state in states:
        known = view.partition(state.topic_partition)
        epoch = known.leader_epoch if known else -1
        wanted[state.topic_partition] = FetchPosition(ids[state.topic_partition.topic], state.fetch_offset, epoch)
    part = session.request(wanted)
    topics: dict[str, list[messages.fetch_request.FetchPartition]] = {}
    for each in part.named:
        position = wanted[each]
        topics.setdefault(each.topic, []).append(
            m.FetchPartition(
                partition=each.partition,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.fetch_offset,
                partition_max_bytes=options.max_partition_fetch_bytes,
            )
        )
    forgotten: dict[tuple[str, bytes], list[int]] = {}
    for each, topic_id in part.forgotten:
        forgotten.setdefault((each.topic, topic_id), []).append(each.partition)
    return m.FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=options.fetch_min_bytes,
        max_bytes=max_bytes,
        isolation_level=options.isolation,
        session_id=part.session_id,
        session_epoch=part.session_epoch,
        topics=[
            m.FetchTopic(topic=name, topic_id=ids[name], partitions=partitions) for name, partitions in topics.items()
        ],
        forgotten_topics_data=[
            m.ForgottenTopic(topic=name, topic_id=topic_id, partitions=partitions)
            for (name, topic_id), partitions in forgotten.items()
        ],
        rack_id=rack,
    )
