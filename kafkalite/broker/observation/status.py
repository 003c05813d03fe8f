"""The document of `/status.json`: the cluster as this broker knows it, and its changes since it was last sent.

Keys of version 1; keys may be added without a new version. Times are ms since 1970, ids of topics texts of 22 characters.

    version        1
    time_ms        when it was made
    broker         this broker: id, state (a name of BrokerState), ready, epoch, kafkalite_version
    cluster_id
    zookeeper      session: connected, suspended, expired or closed
    controller     id (-1: none is known), epoch
    brokers        by id, all that are alive or have a replica: alive, rack, endpoints, leaders, replicas, in_sync
    counts         topics, partitions, under_replicated_partitions, offline_partitions
    traffic        of this broker since its start: bytes_in, bytes_out, records_in, records_out
    topics         by name: id, internal, and partitions by number: leader (-1: none), leader_epoch, isr, replicas
    groups         the 200 with the greatest lag: id, state, coordinator, members, lag, and topics by name, the 100 with the greatest
                   lag: lag, partitions, unknown (partitions whose end is not known)
    groups_omitted groups that are left out, because there are more than are shown: those with the smallest lag

While the broker starts there are only the first three. A *change* has the same keys, those that changed; `topics` then has only the
partitions that changed, and null for a topic that is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkalite import __version__
from kafkalite.broker.observation.groups import GroupView
from kafkalite.broker.observation.readiness import is_ready
from kafkalite.config.listeners import listener_text
from kafkalite.types import INTERNAL_TOPICS, topic_id_to_text

if TYPE_CHECKING:
    from kafkalite.broker.metadata_cache import MetadataCache
    from kafkalite.broker.observation.observed import Observed
    from kafkalite.broker.traffic import Traffic
    from kafkalite.controller.control_requests import PartitionMetadata

VERSION: Final = 1
GROUPS_SHOWN: Final = 200
_PORTION: Final = 500
"""Partitions that are described before other work of the event loop."""

Partitions = dict[str, dict[int, "PartitionMetadata"]]
"""Partitions by topic and number. The metadata cache replaces an entry when it changes, so comparing objects finds changes."""


def broker_facts(broker: Observed) -> dict[str, Any]:
    """Return the keys about this broker alone, which change slowly."""
    serving = broker.serving
    if serving is None:
        return {"broker": _self(broker), "cluster_id": broker.cluster_id}
    return {
        "broker": _self(broker),
        "cluster_id": broker.cluster_id,
        "zookeeper": {"session": broker.store.state.value},
        "controller": {"id": broker.metadata.controller_id, "epoch": broker.metadata.controller_epoch},
        "traffic": _traffic(serving.parts.traffic),
    }


def _self(broker: Observed) -> dict[str, Any]:
    serving = broker.serving
    return {
        "id": broker.broker_id,
        "state": broker.state.name.lower(),
        "ready": is_ready(broker),
        "epoch": serving.parts.replicas.broker_epoch if serving is not None else -1,
        "kafkalite_version": __version__,
    }


def _traffic(traffic: Traffic) -> dict[str, int]:
    totals = dict.fromkeys(("bytes_in", "bytes_out", "records_in", "records_out"), 0)
    for counts in traffic.topics.values():
        for name in totals:
            totals[name] += getattr(counts, name)
    return totals


class ClusterTally:
    """Counts of the replicas and leaders of brokers, and of partitions with problems, made in one pass over all partitions."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._brokers: dict[int, list[int]] = {broker: [0, 0, 0] for broker in metadata.brokers}
        self._partitions = self._under_replicated = self._offline = 0

    def add(self, partition: PartitionMetadata) -> None:
        self._partitions += 1
        self._under_replicated += len(partition.isr) < len(partition.replicas)
        self._offline += partition.leader < 0
        brokers = self._brokers
        for place, holders in enumerate(((partition.leader,), partition.replicas, partition.isr)):
            for broker in holders:
                if broker >= 0:
                    brokers.setdefault(broker, [0, 0, 0])[place] += 1

    def to_dict(self) -> dict[str, Any]:
        """Return the keys brokers and counts."""
        return {
            "brokers": {str(broker): self._broker(broker, *sums) for broker, sums in sorted(self._brokers.items())},
            "counts": {
                "topics": len(self._metadata.topics),
                "partitions": self._partitions,
                "under_replicated_partitions": self._under_replicated,
                "offline_partitions": self._offline,
            },
        }

    def _broker(self, broker_id: int, leaders: int, replicas: int, in_sync: int) -> dict[str, Any]:
        known = self._metadata.brokers.get(broker_id)
        endpoints = () if known is None else known.endpoints.values()
        return {
            "alive": known is not None,
            "rack": known.rack if known else None,
            "endpoints": [listener_text(each) for each in endpoints],
            "leaders": leaders,
            "replicas": replicas,
            "in_sync": in_sync,
        }


async def cluster_facts(metadata: MetadataCache) -> tuple[dict[str, Any], Partitions]:
    """Return the keys brokers, counts and topics, and the partitions that they were made from."""
    tally = ClusterTally(metadata)
    seen: Partitions = {topic.name: dict(topic.partitions) for topic in metadata.topics.values()}
    ids = {topic.name: topic.topic_id for topic in metadata.topics.values()}
    topics: dict[str, Any] = {}
    described = 0
    for name, partitions in sorted(seen.items()):
        rows = {}
        for number, partition in sorted(partitions.items()):
            tally.add(partition)
            rows[str(number)] = _row(partition)
            described += 1
            if described % _PORTION == 0:
                await asyncio.sleep(0)
        topics[name] = _topic(name, ids[name], rows)
    return {**tally.to_dict(), "topics": topics}, seen


async def cluster_changes(metadata: MetadataCache, before: Partitions) -> tuple[dict[str, Any], Partitions]:
    """Return the keys of `cluster_facts`, with those partitions in `topics` that differ from `before`."""
    tally = ClusterTally(metadata)
    seen: Partitions = {topic.name: dict(topic.partitions) for topic in metadata.topics.values()}
    ids = {topic.name: topic.topic_id for topic in metadata.topics.values()}
    topics: dict[str, Any] = dict.fromkeys(before.keys() - seen.keys())
    looked_at = 0
    for name, partitions in seen.items():
        old = before.get(name, {})
        rows = {str(number): _row(each) for number, each in partitions.items() if old.get(number) is not each}
        if rows:
            topics[name] = _topic(name, ids[name], rows)
        for each in partitions.values():
            tally.add(each)
        looked_at += len(partitions)
        if looked_at >= _PORTION:
            looked_at = 0
            await asyncio.sleep(0)
    return {**tally.to_dict(), "topics": topics}, seen


def _topic(name: str, topic_id: bytes, rows: dict[str, Any]) -> dict[str, Any]:
    return {"id": topic_id_to_text(topic_id), "internal": name in INTERNAL_TOPICS, "partitions": rows}


def _row(partition: PartitionMetadata) -> dict[str, Any]:
    return {
        "leader": max(partition.leader, -1),
        "leader_epoch": partition.leader_epoch,
        "isr": list(partition.isr),
        "replicas": list(partition.replicas),
    }


def group_facts(groups: Sequence[GroupView]) -> dict[str, Any]:
    """Return the keys groups and groups_omitted."""
    shown = sorted(groups, key=lambda group: (-group.lag, group.group_id))[:GROUPS_SHOWN]
    shown.sort(key=lambda group: group.group_id)
    return {"groups": [group.to_dict() for group in shown], "groups_omitted": len(groups) - len(shown)}
