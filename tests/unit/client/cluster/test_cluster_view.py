"""The client's view of the cluster."""

from __future__ import annotations

from typing import Any

from kafkalite.client.cluster.view import BrokerNode, ClusterView
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition

M = messages.metadata_response
TP = TopicPartition("t", 0)


def response(leader: int = 1, epoch: int = 5, topic_id: bytes = b"a" * 16, error: int = 0, name: str = "t") -> Any:
    return M.MetadataResponse(
        cluster_id="c",
        controller_id=2,
        brokers=[M.MetadataResponseBroker(node_id=n, host="h", port=9000 + n) for n in (1, 2)],
        topics=[
            M.MetadataResponseTopic(
                name=name,
                topic_id=topic_id,
                error_code=error,
                partitions=[M.MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)],
            )
        ],
    )


def test_an_answer_becomes_a_view() -> None:
    view = ClusterView().with_metadata(response())
    assert (view.cluster_id, view.controller_id, view.leader_of(TP)) == ("c", 2, 1)
    assert view.brokers[2] == BrokerNode(2, "h", 9002)
    assert view.topic_name(b"a" * 16) == "t"
    assert view.topics["t"].available == (0,)
    assert view.leader_of(TopicPartition("t", 1)) == view.leader_of(TopicPartition("u", 0)) == -1


def test_an_older_leader_epoch_changes_nothing() -> None:
    view = ClusterView().with_metadata(response(1, 5)).with_metadata(response(2, 4))
    assert view.leader_of(TP) == 1
    assert view.with_metadata(response(2, 6)).leader_of(TP) == 2


def test_a_topic_made_anew_begins_with_low_epochs() -> None:
    view = ClusterView().with_metadata(response(1, 5)).with_metadata(response(2, 0, b"b" * 16))
    assert view.leader_of(TP) == 2


def test_a_broker_too_old_for_epochs_is_believed() -> None:
    assert ClusterView().with_metadata(response(1, 5)).with_metadata(response(2, -1)).leader_of(TP) == 2


def test_an_unknown_topic_is_forgotten_and_its_error_kept() -> None:
    view = ClusterView().with_metadata(response()).with_metadata(response(error=3))
    assert "t" not in view.topics and view.topic_errors == {"t": 3}
    assert not view.with_metadata(response()).topic_errors


def test_other_topics_stay_unless_the_answer_lists_everything() -> None:
    view = ClusterView().with_metadata(response(name="u"))
    assert set(view.with_metadata(response()).topics) == {"t", "u"}
    assert set(view.with_metadata(response(), everything=True).topics) == {"t"}


def test_a_newer_leader_named_in_an_answer_is_taken() -> None:
    view = ClusterView().with_metadata(response(1, 5))
    assert view.with_leader(TP, 2, 6).leader_of(TP) == 2
    assert view.with_leader(TP, 2, 5) is view, "no newer epoch"
    assert view.with_leader(TP, 9, 6) is view, "a broker that is not known"
    assert view.with_brokers([BrokerNode(9, "h", 1)]).with_leader(TP, 9, 6).leader_of(TP) == 9
