"""Garbage in znodes of a real ZooKeeper, and what becomes of a cluster: the rows of the table in `test_znode_garbage`.

A row is written while a controller governs, stays while another one takes over, and is mended. Ours governs always.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, NamedTuple

from zk import paths

WELL, SICK = "well", "sick"
GOVERNS, GOVERNS_NOT, ENDS = "governs", "governs not", "ends"
ALWAYS: Final = f"{GOVERNS}, the next one {GOVERNS}"
_SPARED: Final = (
    "one bad znode does not keep the cluster from being governed: it is left out, with a line that names its path"
)


class Row(NamedTuple):
    """What is written where; `why` ours governs nevertheless, where Apache Kafka does not."""

    name: str
    path: str
    data: bytes
    why: str = ""


FATAL_TO_OTHERS: Final = frozenset(
    {
        "a topic of no bytes",
        "a topic that is a list",
        "a topic of partition x",
        "a partition's state that is a list",
        "an ISR that is a number",
        "a broker that is no JSON",
        "a broker that is a list",
        "a broker without a number",
        "an election that is a list",
        "an ISR change without a number",
        "features that are no JSON",
    }
)


def _text(document: object) -> bytes:
    return json.dumps(document).encode()


def _config(**values: str) -> bytes:
    return _text({"version": 1, "config": {name.replace("_", "."): value for name, value in values.items()}})


def rows() -> Iterator[Row]:
    """Apache Kafka fails in eleven of them; where it does when it is elected, nobody governs until somebody gives up the seat once more."""
    for name, path, data in _garbage():
        yield Row(name, path, data, _SPARED if name in FATAL_TO_OTHERS else "")


def _garbage() -> Iterator[tuple[str, str, bytes]]:
    topic = paths.topic("broken")
    yield ("a topic of no bytes", topic, b"")
    yield ("a topic that is no JSON", topic, b"not json")
    yield ("a topic that is a list", topic, b"[]")
    yield ("a topic of partition -1", topic, _text({"version": 1, "partitions": {"-1": [1]}}))
    yield ("a topic of partition x", topic, _text({"version": 1, "partitions": {"x": [1]}}))
    yield ("a topic without replicas", topic, _text({"version": 1, "partitions": {"0": []}}))
    state = paths.partition_state(SICK, 0)
    yield ("a partition's state that is no JSON", state, b"not json")
    yield ("a partition's state that is a list", state, b"[]")
    yield (
        "an ISR that is a number",
        state,
        _text({"version": 1, "leader": 1, "leader_epoch": 0, "isr": 1, "controller_epoch": 1}),
    )
    yield ("a broker that is no JSON", paths.broker(7), b"not json")
    yield ("a broker that is a list", paths.broker(7), b"[]")
    yield ("a broker without a number", f"{paths.BROKER_IDS}/stray", b"{}")
    yield ("a topic's settings that are no JSON", paths.topic_config(SICK), b"not json")
    yield (
        "a topic's settings that make no sense",
        paths.topic_config(SICK),
        _config(retention_ms="abc", segment_bytes="-1"),
    )
    yield ("a broker's settings that are no JSON", paths.broker_config(1), b"not json")
    yield ("a client's quota that is no number", paths.config("clients/c"), _config(producer_byte_rate="abc"))
    yield ("a change of settings that is no JSON", f"{paths.CONFIG_CHANGES}/config_change_0000009000", b"not json")
    yield (
        "a change of settings of another version",
        f"{paths.CONFIG_CHANGES}/config_change_0000009001",
        _text({"version": 9}),
    )
    yield ("a reassignment that is no JSON", paths.REASSIGN_PARTITIONS, b"not json")
    yield ("a reassignment that is a list", paths.REASSIGN_PARTITIONS, b"[]")
    yield (
        "a reassignment of a topic that there is not",
        paths.REASSIGN_PARTITIONS,
        _text({"version": 1, "partitions": [{"topic": "nobody", "partition": 0, "replicas": [1]}]}),
    )
    yield ("an election that is no JSON", paths.PREFERRED_REPLICA_ELECTION, b"not json")
    yield ("an election that is a list", paths.PREFERRED_REPLICA_ELECTION, b"[]")
    yield ("a deletion of a topic that there is not", paths.delete_topic("nobody"), b"")
    yield ("an ISR change that is no JSON", f"{paths.ISR_CHANGES}/isr_change_0000000000", b"not json")
    yield ("an ISR change without a number", f"{paths.ISR_CHANGES}/stray", b"{}")
    yield (
        "an event of a log directory that is no JSON",
        f"{paths.LOG_DIR_EVENTS}/log_dir_event_0000000000",
        b"not json",
    )
    yield ("features that are no JSON", paths.FEATURE, b"not json")
