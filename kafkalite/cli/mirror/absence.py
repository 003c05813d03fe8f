"""Tells topics that a cluster says it does not have from those that it only does not show.

A list of topics leaves out those that the user may not describe. Asked for one by name, a broker answers UNKNOWN_TOPIC_OR_PARTITION if
there is none, and TOPIC_AUTHORIZATION_FAILED to a user without Describe on it, whether there is one or not.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kafkalite.client.errors import error_name
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages

if TYPE_CHECKING:
    from kafkalite.client.cluster.client import ClusterClient


async def find_unknown(cluster: ClusterClient, side: str, names: Collection[str]) -> dict[str, str]:
    """Return those of the topics of which a cluster does not say that there is none, with a description of why; `names` are those that
    its list of topics lacks, and `side` is "source" or "target". Raises ClientError, OSError.
    """
    if not names:
        return {}
    m = messages.metadata_request
    request = m.MetadataRequest(
        topics=[m.MetadataRequestTopic(name=each) for each in sorted(names)], allow_auto_topic_creation=False
    )
    response = await cluster.request_any(request)
    codes = {each.name: each.error_code for each in response.topics}
    found = {name: codes.get(name, int(ErrorCode.UNKNOWN_SERVER_ERROR)) for name in sorted(names)}
    return {name: _describe(side, code) for name, code in found.items() if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def _describe(side: str, code: int) -> str:
    """Return why it is not known whether a topic is there, as the end of a sentence that begins with the topic."""
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        remedy = f"give the user by which the {side} is asked Describe on it"
        return f"is not shown by the {side}, which may have it (TOPIC_AUTHORIZATION_FAILED): {remedy}"
    return f"was not in the {side}'s list of topics and may be there ({error_name(code)}): it is asked again"
