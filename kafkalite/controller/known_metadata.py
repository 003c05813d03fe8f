"""What brokers have proven to a new controller to know, so that it sends each only what differs from that.

The metadata of the controller's own broker, as it is when the term begins, is the reference. The first request of the term asks each broker
for the digests of its metadata (`metadata_digests`). What a broker has in a bucket whose digest is that of the reference, it has exactly as
the reference. Of such a bucket it is sent the partitions whose state differs from the reference, and of any other bucket all partitions.
Who has proven nothing is sent everything: Apache Kafka, a broker of another release, one that did not answer in time or has restarted.

That nobody keeps what is out of date follows from four facts:

1. A broker answers behind the requests that it had accepted before, and accepts none of an earlier controller afterwards, because the
   request has the new controller epoch. So only this term changes what was proven.
2. Requests of a term reach a broker in order, one at a time, and the first one asks for the digests. So all that was proven is older than
   all that the term sends.
3. A proof is of one broker epoch. A process that starts has no metadata, and another epoch; it is sent everything.
4. A state that was sent in this term is no reference any more: when the partition changes again it is sent again.

It serves the failover only; afterwards whatever changes is sent to everybody, as always.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from kafkalite.controller.control_requests import PartitionMetadata, UpdateMetadataTopic
from kafkalite.controller.metadata_digests import (
    BUCKETS_MAX,
    DIGEST_BYTES,
    TOGETHER,
    KnownTopic,
    bucket_of,
    digest_metadata,
)
from kafkalite.portions import Work
from kafkalite.types import BrokerId

DIFFERENCES_FROM: Final = 500
"""Partitions from which on proofs are asked for. Fewer are sent sooner than proofs are made."""
_PARTIAL_MAX: Final = 4
"""Groups of brokers that have proven some buckets only; each group has its messages encoded for it."""

Buckets = frozenset[int]
NOTHING_PROVEN: Final = None
"""In place of buckets: of a broker that is sent everything."""


class Receiver(Protocol):
    """A registered broker, by its id and the epoch of its incarnation."""

    @property
    def broker_id(self) -> BrokerId: ...

    @property
    def epoch(self) -> int: ...


ReceiverT = TypeVar("ReceiverT", bound=Receiver)


class KnownMetadata:
    """The reference, and the digests that brokers have answered with. `asked` are the brokers whose answers are awaited."""

    def __init__(self, reference: Mapping[str, KnownTopic]) -> None:
        self._reference = dict(reference)
        self._own: list[bytes] = []
        self._answers: dict[BrokerId, tuple[int, bytes | None]] = {}
        """Broker epoch and digests by broker; None from a broker that proves nothing."""
        self._unequal: dict[bytes, Buckets | None] = {}
        """Buckets that differ from the reference, by all digests of an answer, which mostly are the same for all brokers."""
        self._sent: defaultdict[str, set[int]] = defaultdict(set)
        """Partitions that this term has sent, by topic: their states in the reference prove nothing any more."""
        self.asked: Collection[BrokerId] = ()

    @property
    def buckets(self) -> int:
        """Return the number of buckets that brokers are asked for."""
        return min(max(len(self._reference), 1), BUCKETS_MAX)

    @property
    def is_worthwhile(self) -> bool:
        """True if the reference has so many partitions that proofs cost less than they save."""
        return sum(len(topic.partitions) for topic in self._reference.values()) >= DIFFERENCES_FROM

    def digest_reference(self) -> Work[None]:
        """Compute the digests of the reference; before, no broker has proven anything."""
        digests = yield from digest_metadata(self._reference.values(), self.buckets)
        self._own = _split(digests)

    def note_digests(self, broker: BrokerId, broker_epoch: int, digests: bytes | None) -> None:
        """Keep the answer of a broker's incarnation. None proves nothing, nor does an answer of another length, which is not kept."""
        if digests is not None and len(digests) != DIGEST_BYTES * self.buckets:
            digests = None
        self._answers[broker] = broker_epoch, digests

    @property
    def has_all_answers(self) -> bool:
        """True if every broker that was asked has answered."""
        return self._answers.keys() >= set(self.asked)

    def proven_by(self, brokers: Mapping[BrokerId, Receiver]) -> list[BrokerId]:
        """Return the brokers that have proven to know some of the reference."""
        return sorted(each for each, broker in brokers.items() if self._find_unequal(broker) is not NOTHING_PROVEN)

    def divide(
        self, topics: Sequence[UpdateMetadataTopic], receivers: Iterable[ReceiverT]
    ) -> Work[list[tuple[list[ReceiverT], list[UpdateMetadataTopic]]]]:
        """Return what is to be sent to whom, for each group of receivers that have proven the same; these topics count as sent."""
        differing: dict[str, UpdateMetadataTopic] = {}
        for done, topic in enumerate(topics, 1):
            if done % TOGETHER == 0:
                yield
            difference = yield from self._take_difference(topic)
            if difference is not None:
                differing[topic.name] = difference
        divided = []
        for unequal, group in self._group(receivers).items():
            if unequal is NOTHING_PROVEN:
                divided.append((group, list(topics)))
                continue
            wanted = []
            for done, topic in enumerate(topics, 1):
                if done % TOGETHER == 0:
                    yield
                if unequal and bucket_of(topic.name, self.buckets) in unequal:
                    wanted.append(topic)
                elif topic.name in differing:
                    wanted.append(differing[topic.name])
            divided.append((group, wanted))
        return divided

    def _take_difference(self, topic: UpdateMetadataTopic) -> Work[UpdateMetadataTopic | None]:
        """Return what differs from the reference, None if nothing does, and take the partitions out of the reference."""
        known, sent = self._reference.get(topic.name), self._sent[topic.name]
        partitions: dict[int, PartitionMetadata] = {}
        for done, (index, state) in enumerate(topic.partitions.items(), 1):
            if done % TOGETHER == 0:
                yield
            if (
                known is None
                or known.topic_id != topic.topic_id
                or index in sent
                or known.partitions.get(index) != state
            ):
                partitions[index] = state
        sent.update(topic.partitions, topic.deleted)
        if not partitions and not topic.deleted:
            return None
        return UpdateMetadataTopic(topic.name, topic.topic_id, partitions, topic.deleted)

    def _group(self, receivers: Iterable[ReceiverT]) -> dict[Buckets | None, list[ReceiverT]]:
        """Group brokers by the buckets that they have not proven.

        With more than `_PARTIAL_MAX` groups these are one, which is sent what any of its brokers lacks.
        """
        groups: defaultdict[Buckets | None, list[ReceiverT]] = defaultdict(list)
        for broker in receivers:
            groups[self._find_unequal(broker)].append(broker)
        partial = [each for each in groups if each]
        if len(partial) > _PARTIAL_MAX:
            merged = frozenset[int]().union(*partial)
            together = [broker for each in partial for broker in groups.pop(each)]
            groups[merged] = together
        return groups

    def _find_unequal(self, broker: Receiver) -> Buckets | None:
        """Return the buckets in which a broker's metadata is not that of the reference, None if it has proven none."""
        epoch, digests = self._answers.get(broker.broker_id, (broker.epoch, None))
        if digests is None or epoch != broker.epoch or not self._own:
            return NOTHING_PROVEN
        if digests not in self._unequal:
            pairs = zip(self._own, _split(digests), strict=True)
            unequal = frozenset(bucket for bucket, (own, other) in enumerate(pairs) if own != other)
            self._unequal[digests] = NOTHING_PROVEN if len(unequal) == len(self._own) else unequal
        return self._unequal[digests]


def _split(digests: bytes) -> list[bytes]:
    return [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]
