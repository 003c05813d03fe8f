"""Refuses what would bring a znode or the list of topics near `jute.maxbuffer` (`zk.size_limits`), before anything is written. Pure.

Refused is what is above nine tenths of the limit: Apache Kafka's brokers and tools also create topics, and do not look at it. What shrinks
a znode or a list is never refused: deletions, and the cancellation and completion of reassignments. The lists of settings
(/config/topics), of topics to be deleted and of a topic's partitions stay shorter than those that are checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkalite.errors import ErrorCode, KafkaError
from zk import paths
from zk.size_limits import SizeLimits, operation_bytes
from zk.store import Write
from zk.znodes import TopicAssignment

USABLE_SHARE: Final = 0.9

_RAISE_LIMIT: Final = (
    "or raise jute.maxbuffer of ZooKeeper's servers, then that of Apache Kafka's brokers in this cluster, and set "
    "kafkalite.zookeeper.jute.maxbuffer to the same"
)
_PARTITION_BYTES: Final = 60
"""Most that an index takes in the three maps of an assignment, without broker ids."""
_BROKER_BYTES: Final = 11
"""Most that a broker id takes there."""
_FIXED_BYTES: Final = 512


def usable_bytes(limit_bytes: int) -> int:
    """Return the share of a limit that topics may use."""
    return int(limit_bytes * USABLE_SHARE)


def check_topic_list(limits: SizeLimits, topic: str, list_bytes: int) -> None:
    """Raise KafkaError POLICY_VIOLATION if /brokers/topics, which a new topic makes so long, is too long for a broker to read."""
    if list_bytes > usable_bytes(limits.response_bytes):
        raise _refusal(
            f"Topic '{topic}' would make the list of topics ({paths.TOPICS}) {list_bytes} bytes long",
            limits.response_bytes,
            "every broker can read",
            "Delete topics or use shorter names",
        )


def check_config(limits: SizeLimits, topic: str, data: bytes) -> None:
    """Raise KafkaError POLICY_VIOLATION for settings of a topic that are too large for a znode."""
    _check_znode(limits, f"The settings of topic '{topic}'", Write(paths.topic_config(topic), data), "Shorten them")


def check_assignment(limits: SizeLimits, topic: str, data: bytes, remedy: str) -> None:
    """Raise KafkaError POLICY_VIOLATION for an assignment that is too large for a znode. `remedy` begins with a capital letter."""
    _check_znode(limits, f"The assignment of topic '{topic}'", Write(paths.topic(topic), data), remedy)


def _check_znode(limits: SizeLimits, what: str, write: Write, remedy: str) -> None:
    if (size_bytes := operation_bytes(write)) > usable_bytes(limits.znode_bytes):
        told = f"{what} ({write.path}) would be {size_bytes} bytes long"
        raise _refusal(told, limits.znode_bytes, "a znode can have", remedy)


def surely_fits(limits: SizeLimits, partition_count: int, broker_counts: Iterable[int]) -> bool:
    """True if an assignment of so many partitions fits whatever the ids are; `broker_counts` are the lengths of its lists of brokers.

    This is much cheaper than to encode it.
    """
    most_bytes = _FIXED_BYTES + _PARTITION_BYTES * partition_count + _BROKER_BYTES * sum(broker_counts)
    return most_bytes <= usable_bytes(limits.znode_bytes)


def check_new_assignment(limits: SizeLimits, topic: str, assignment: TopicAssignment) -> None:
    """Check the assignment of a topic that is created or gets more partitions, as `check_assignment`."""
    partitions = assignment.partitions
    if not surely_fits(limits, len(partitions), map(len, partitions.values())):
        check_assignment(limits, topic, assignment.encode(), "Use fewer partitions or replicas")


def _refusal(what: str, limit_bytes: int, of_whom: str, remedy: str) -> KafkaError:
    return KafkaError(
        ErrorCode.POLICY_VIOLATION,
        f"{what}, above {usable_bytes(limit_bytes)}, which is {USABLE_SHARE:.0%} of what {of_whom} ({limit_bytes} bytes, jute.maxbuffer). "
        f"{remedy}, {_RAISE_LIMIT}.",
    )
