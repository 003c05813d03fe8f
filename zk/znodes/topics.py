"""`/brokers/topics/<t>` and `.../partitions/<p>/state`: who holds a topic's partitions, and who leads them.

Topic ids stay as the 22 characters of the znode; partition epoch and broker epoch are znode versions and not in the data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from zk.znodes.fields import Fields, to_json

_INDEX_DIGITS = 10
"""Of 2**31: partitions have fewer."""

_NUMBER: Final = "(?:0|[1-9][0-9]{0,8})"
"""A number as JSON has it, that is in the bounds of all fields."""
_USUAL_STATE: Final = re.compile(
    (
        rf'\{{"controller_epoch":({_NUMBER}),"leader":(-1|{_NUMBER}),"version":1,"leader_epoch":({_NUMBER}),'
        rf'"isr":\[({_NUMBER}(?:,{_NUMBER})*)\](?:,"leader_recovery_state":([01]))?\}}'
    ).encode()
)
"""A state as Kafka and this module write it. What is written in another way takes five times as long to read."""
_ISRS: Final = 10_000
"""Lists of in-sync replicas whose text is remembered: there are many partitions and few lists."""
_STATES: Final = 10_000
"""States that are remembered: a hundred thousand partitions are in a few."""
_USUAL_BYTES: Final = 1_000
"""Longest data of a state that is remembered."""

Replicas = Mapping[int, tuple[int, ...]]
"""Broker ids by partition index."""


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """Replicas by partition, the first one preferred as leader. Version 3 is written, versions 1 to 3 are read.

    `adding` and `removing` hold only partitions that are being reassigned (KIP-455; version 2). `topic_id` is None in
    topics made before 2.8 or by its tools (KIP-516; version 3).
    """

    partitions: Replicas
    topic_id: str | None = None
    adding: Replicas = field(default_factory=dict)
    removing: Replicas = field(default_factory=dict)

    def encode(self) -> bytes:
        """Partitions in the order of the mapping; empty lists of adding and removing replicas are left out."""
        document: dict[str, Any] = {"partitions": _encode_replicas(self.partitions)}
        if self.topic_id is not None:
            document["topic_id"] = self.topic_id
        document["adding_replicas"] = _encode_replicas(_without_empty(self.adding))
        document["removing_replicas"] = _encode_replicas(_without_empty(self.removing))
        document["version"] = 3
        return to_json(document)

    @classmethod
    def decode(cls, data: bytes) -> TopicAssignment:
        """Raises MalformedZnodeError when it is no JSON or a partition makes no sense; without `partitions` it has none."""
        fields = Fields.parse("topic", data)
        return cls(
            _decode_replicas(fields, "partitions"),
            fields.text("topic_id") if fields.has("topic_id") else None,
            _without_empty(_decode_replicas(fields, "adding_replicas")),
            _without_empty(_decode_replicas(fields, "removing_replicas")),
        )


@dataclass(slots=True)
class PartitionState:
    """Leader (-1 for none) and in-sync replicas, in no particular order, as of `leader_epoch`.

    `recovering` marks a leader that was elected uncleanly (KIP-704). Nothing changes a state, but it is not frozen, which takes four times
    as long to make.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    recovering: bool = False

    def encode(self) -> bytes:
        """Return the data of the znode."""
        return encode_partition_state(self.leader, self.leader_epoch, self.isr, self.controller_epoch, self.recovering)

    @classmethod
    def decode(cls, data: bytes) -> PartitionState:
        """Raises MalformedZnodeError when something is missing, or the ISR empty, from which nobody could ever be elected."""
        usual = _decode_usual(data) if len(data) <= _USUAL_BYTES else None
        if usual is not None:
            return usual
        fields = Fields.parse("partition state", data)
        recovery_state = fields.integer("leader_recovery_state", 0)
        if recovery_state not in (0, 1):
            raise fields.refuse(f"leader_recovery_state is {recovery_state}, neither 0 nor 1")
        state = cls(
            leader=fields.integer("leader", lowest=-1),
            leader_epoch=fields.integer("leader_epoch", lowest=0),
            isr=fields.brokers("isr"),
            controller_epoch=fields.integer("controller_epoch", lowest=0),
            recovering=recovery_state == 1,
        )
        if not state.isr:
            raise fields.refuse("isr is empty")
        return state


@lru_cache(maxsize=_STATES)
def _decode_usual(data: bytes) -> PartitionState | None:
    """Return a state that is written as usual, the same object for the same data; None for another way to write it."""
    usual = _USUAL_STATE.fullmatch(data)
    if usual is None:
        return None
    controller_epoch, leader, leader_epoch, isr, recovery_text = usual.groups()
    return PartitionState(int(leader), int(leader_epoch), _split(isr), int(controller_epoch), recovery_text == b"1")


@lru_cache(maxsize=_STATES)
def encode_partition_state(
    leader: int, leader_epoch: int, isr: tuple[int, ...], controller_epoch: int, recovering: bool
) -> bytes:
    """Return the data of a state, version 1. Written without a dict and `json.dumps`, which take five times as long."""
    recovery = ',"leader_recovery_state":1' if recovering else ""
    return (
        f'{{"controller_epoch":{controller_epoch},"leader":{leader},"version":1,'
        f'"leader_epoch":{leader_epoch},"isr":[{_join(isr)}]{recovery}}}'
    ).encode()


@lru_cache(maxsize=_ISRS)
def _join(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))


@lru_cache(maxsize=_ISRS)
def _split(brokers: bytes) -> tuple[int, ...]:
    return tuple(map(int, brokers.split(b",")))


def _without_empty(replicas: Replicas) -> dict[int, tuple[int, ...]]:
    return {partition: brokers for partition, brokers in replicas.items() if brokers}


def _encode_replicas(replicas: Replicas) -> dict[str, tuple[int, ...]]:
    return {str(partition): brokers for partition, brokers in replicas.items()}


def _decode_replicas(fields: Fields, key: str) -> dict[int, tuple[int, ...]]:
    replicas = {}
    for partition, brokers in fields.mapping(key).items():
        if not (partition.isdecimal() and len(partition) < _INDEX_DIGITS):
            raise fields.refuse(f"{key} has a partition {partition[:80]!r} that is no number of a partition")
        replicas[int(partition)] = fields.broker_list(f"{key} of partition {partition}", brokers)
    return replicas
