"""Every version of every API, put to our brokers and to Apache Kafka's while a broker is dead: the same answers.

Both clusters are brought into the same state (`sick_requests`): partitions without a leader or with a dead replica, a topic whose deletion
cannot end, a group and a transactional id without a coordinator, a listener that one broker lacks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from kafkalite.errors import ErrorCode
from kafkalite.local.broker_process import BROKER_COMMAND
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.types import NO_BROKER
from tests.peers import apache_kafka
from tests.peers.sick_cluster import CONTROLLER, EXTRA, OTHER, THROUGH_EXTRA, Sick, sick_cluster
from tests.peers.sick_requests import NOT_ASKED, ROWS

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]

ASKED_OF: Final = {
    CONTROLLER: "the controller",
    OTHER: "another broker",
    THROUGH_EXTRA: f"another broker through {EXTRA}",
}
TELL_ADDRESSES: Final = frozenset(
    {ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER, ApiKey.PRODUCE, ApiKey.FETCH}
)
"""What is also asked through EXTRA: all others answer the same whichever listener they come by."""
CLOSED: Final = "the connection was closed"


async def _answers(cluster: Sick, versions: Mapping[ApiKey, range]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, rows in ROWS.items():
        for version in versions[key]:
            for asked, who in ASKED_OF.items():
                if asked == THROUGH_EXTRA and key not in TELL_ADDRESSES:
                    continue
                cluster.known.version, cluster.known.creates_topics = version, asked != CONTROLLER
                for number, (name, request) in enumerate(rows(cluster.known)):
                    body = await cluster.ask_bytes(asked, request, version)
                    title = f"{key.name} {version} to {who}, row {number}: {name}"
                    found[title] = CLOSED if body is None else cluster.shown(key, version, body)
    cluster.hang_up()
    return found


def test_every_version_is_answered_as_by_apache_kafka(tmp_path: Path) -> None:
    async def compared(ours: Sick, theirs: Sick) -> tuple[dict[str, Any], dict[str, Any]]:
        await asyncio.gather(ours.fall_ill(), theirs.fall_ill())
        advertised = [await each.advertised() for each in (ours, theirs)]
        both = {
            ApiKey(key): range(max(each[key][0] for each in advertised), min(each[key][1] for each in advertised) + 1)
            for key in set(advertised[0]) & set(advertised[1]) & set(APIS)
        }
        assert both.keys() == ROWS.keys() | NOT_ASKED.keys()
        mine, other = await asyncio.gather(_answers(ours, both), _answers(theirs, both))
        return mine, other

    with (
        sick_cluster(tmp_path / "ours", BROKER_COMMAND) as ours,
        sick_cluster(tmp_path / "apache", apache_kafka.broker_command()) as theirs,
    ):
        mine, other = asyncio.run(compared(ours, theirs))
    assert mine.keys() == other.keys()
    different = [name for name in other if mine[name] != other[name]]
    reasons = {
        name: [why for why, is_meant in DELIBERATE.items() if is_meant(mine[name], other[name])] for name in different
    }
    wrong = [
        f"{name}\n  ours          {mine[name]}\n  Apache Kafka's {other[name]}"
        for name in different
        if not reasons[name]
    ]
    assert not wrong, "\n".join(wrong)
    unused = DELIBERATE.keys() - {why for each in reasons.values() for why in each}
    assert not unused, f"no difference is left of these: {unused}"


def _has_errors_of_partitions(mine: Any, other: Any) -> bool:
    if "groups" not in mine or other["topics"] or mine["error_code"]:
        return False
    codes = {partition["error_code"] for topic in mine["topics"] for partition in topic["partitions"]}
    return codes == {ErrorCode.NOT_COORDINATOR}


def _has_no_controller(mine: Any, other: Any) -> bool:
    reachable = [broker["node_id"] for broker in mine.get("brokers", ())]
    return CONTROLLER not in reachable and bool(mine == {**other, "controller_id": NO_BROKER})


DELIBERATE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "OffsetFetch 1 has no error of a group. Kafka 2.8 tells it for each partition, and so do we. 3.9 names no partitions, which consumers"
    " of 0.8.2 to 0.10.1 take for a group that has committed nothing: they begin at auto.offset.reset": _has_errors_of_partitions,
    "Metadata names no controller that is not among the brokers of the answer, as DescribeCluster does: for -1 kafka-python asks again, and"
    " by the id of a broker that it does not know it fails": _has_no_controller,
}
"""What differs, and why, by what tells it from all other differences."""
