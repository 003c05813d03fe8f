"""Placement of the replicas of new partitions (Kafka's AdminUtils), as pure functions.

With n brokers in a list, partition p's first replica is at index p + start; the others follow at growing distance, and
the distance grows once more each time p has gone round the list, so that the load of a dead broker spreads over all.
`start` and `shift` are drawn at random from range(n) for a new topic; given the same, the result is the same.

With racks (KIP-36) the list alternates racks, and a rack gets a second replica of a partition only when every rack has
one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

Assignment = dict[int, tuple[int, ...]]
"""Broker ids by partition index, the preferred leader first."""


class PlacementError(ValueError):
    """Raised when the requested replicas cannot be placed on these brokers."""


def assign(
    brokers: Sequence[int],
    partition_count: int,
    replication_factor: int,
    *,
    start: int,
    shift: int,
    first_partition: int = 0,
    racks: Mapping[int, str] | None = None,
) -> Assignment:
    """Place the replicas of partitions `first_partition` and up.

    `racks` by broker id; None or empty places without regard to racks, and then the order of `brokers` counts. Raises
    PlacementError for counts below 1, more replicas than brokers, or a broker without a rack among others with one.
    """
    if partition_count < 1:
        raise PlacementError(f"number of partitions is {partition_count}, must be at least 1")
    if replication_factor < 1:
        raise PlacementError(f"replication factor is {replication_factor}, must be at least 1")
    if replication_factor > len(brokers):
        raise PlacementError(f"replication factor {replication_factor} is larger than the {len(brokers)} brokers")
    partitions = range(first_partition, first_partition + partition_count)
    arranged = _arrange(brokers, racks) if racks else list(brokers)
    placed: Assignment = {}
    for partition in partitions:
        if partition > 0 and partition % len(arranged) == 0:
            shift += 1
        first = (partition + start) % len(arranged)
        if racks:
            placed[partition] = _rack_aware(arranged, racks, first, shift, replication_factor)
        else:
            candidates = _followers(arranged, first, shift)
            placed[partition] = (arranged[first], *(next(candidates) for _ in range(replication_factor - 1)))
    return placed


def extend(
    current: Mapping[int, Sequence[int]],
    brokers: Sequence[int],
    partition_count: int,
    *,
    racks: Mapping[int, str] | None = None,
) -> Assignment:
    """Place the replicas of partitions added to bring a topic to `partition_count`, as many for each as partition 0 has.

    Nothing is random: the pattern continues from the first replica of partition 0. Raises PlacementError when the count
    does not grow or partition 0 is unknown.
    """
    if partition_count <= len(current):
        raise PlacementError(f"the topic has {len(current)} partitions already, {partition_count} is not more")
    if not current.get(0):
        raise PlacementError("partition 0 has no replicas to go on from")
    ordered = sorted(brokers)
    start = next((index for index, broker in enumerate(ordered) if broker >= current[0][0]), 0)
    return assign(
        ordered,
        partition_count - len(current),
        len(current[0]),
        start=start,
        shift=start,
        first_partition=len(current),
        racks=racks,
    )


def _followers(brokers: Sequence[int], first: int, shift: int) -> Iterator[int]:
    """Yield candidates for the replicas after the first, endlessly; the first one's broker is never among them."""
    count = len(brokers)
    distance = shift
    while count > 1:
        yield brokers[(first + 1 + distance % (count - 1)) % count]
        distance += 1


def _rack_aware(
    arranged: Sequence[int], racks: Mapping[int, str], first: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    rack_count = len({racks[broker] for broker in arranged})
    replicas = [arranged[first]]
    used_racks = {racks[arranged[first]]}
    for broker in _followers(arranged, first, shift * rack_count):
        if len(replicas) == replication_factor:
            break
        rack_is_free = racks[broker] not in used_racks or len(used_racks) == rack_count
        if rack_is_free and broker not in replicas:
            replicas.append(broker)
            used_racks.add(racks[broker])
    return tuple(replicas)


def _arrange(brokers: Sequence[int], racks: Mapping[int, str]) -> list[int]:
    """Return brokers in order of id, one from each rack in turn, racks in order of name."""
    missing = sorted(broker for broker in brokers if broker not in racks)
    if missing:
        raise PlacementError(f"some brokers have a rack, but not {missing}; all must, or none")
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(brokers):
        by_rack.setdefault(racks[broker], []).append(broker)
    arranged: list[int] = []
    turn = 0
    while len(arranged) < len(brokers):
        arranged += [by_rack[rack][turn] for rack in sorted(by_rack) if turn < len(by_rack[rack])]
        turn += 1
    return arranged
