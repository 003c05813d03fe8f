"""Reads what administrators have set in a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.cli.mirror import copying
from kafkalite.cli.mirror.administered.acl_listing import read_acls
from kafkalite.cli.mirror.administered.state import Administered, TopicState
from kafkalite.types import INTERNAL_TOPICS

if TYPE_CHECKING:
    from kafkalite.cli.mirror.plan import MirroredTopic
    from kafkalite.client import Admin
    from kafkalite.client.cluster.client import ClusterClient


async def read_administered(admin: Admin, cluster: ClusterClient) -> Administered:
    """Return what is set in a cluster, asked by both clients. Raises ClientError, OSError."""
    names = set(await admin.list_topics()) - INTERNAL_TOPICS
    topics = await copying.read_topics(admin, names)
    acls, unknown = await read_acls(cluster)
    return Administered(
        {name: describe_topic(each) for name, each in topics.items()},
        acls,
        tuple(unknown),
        {each.entity: dict(each.quotas) for each in await admin.describe_client_quotas()},
        await copying.read_users(admin),
    )


def describe_topic(topic: MirroredTopic) -> TopicState:
    """Return what administrators set of a topic."""
    replicas = len(topic.partitions[0].replicas) if topic.partitions else 0
    return TopicState(topic.topic_id, len(topic.partitions), replicas, dict(topic.settings))
