"""Reads what administrators have set in a cluster."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kafkalite.cli.mirror import copying
from kafkalite.cli.mirror.absence import find_unknown
from kafkalite.cli.mirror.administered.acl_listing import read_acls
from kafkalite.cli.mirror.administered.state import Administered, TopicState
from kafkalite.types import INTERNAL_TOPICS

if TYPE_CHECKING:
    from kafkalite.cli.mirror.plan import MirroredTopic
    from kafkalite.client import Admin
    from kafkalite.client.cluster.client import ClusterClient


async def read_administered(
    admin: Admin, cluster: ClusterClient, side: str = "target", known: Collection[str] = ()
) -> Administered:
    """Return what is set in a cluster, the `side` "source" or "target", asked by both clients; and of which `known` topics it does not
    say whether it has them. Raises ClientError, OSError.
    """
    names = set(await admin.list_topics()) - INTERNAL_TOPICS
    topics = await copying.read_topics(admin, names)
    unknown_topics = await find_unknown(cluster, side, set(known) - INTERNAL_TOPICS - topics.keys())
    acls, unknown = await read_acls(cluster)
    return Administered(
        {name: describe_topic(each) for name, each in topics.items()},
        acls,
        tuple(unknown),
        {each.entity: dict(each.quotas) for each in await admin.describe_client_quotas()},
        await copying.read_users(admin),
        unknown_topics,
    )


def describe_topic(topic: MirroredTopic) -> TopicState:
    """Return what administrators set of a topic."""
    replicas = len(topic.partitions[0].replicas) if topic.partitions else 0
    return TopicState(topic.topic_id, len(topic.partitions), replicas, dict(topic.settings))
