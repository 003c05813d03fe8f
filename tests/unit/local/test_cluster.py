"""What clusters for tests have in common."""

from __future__ import annotations

import pytest

import kafkalite.testing
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.contract import broker_settings, check_sides, nodes, rack_of


@pytest.mark.parametrize(
    ("racks", "found"),
    [(None, [None] * 3), (["a", "b"], ["a", "b", "a"]), ([], [None] * 3), ({102: "x"}, [None, "x", None])],
)
def test_racks_are_given_out_in_turn_or_by_id(racks: object, found: list[str | None]) -> None:
    assert [rack_of(racks, 101 + index, index) for index in range(3)] == found  # type: ignore[arg-type]


def test_one_node_or_several() -> None:
    assert nodes(1) == [1]
    assert nodes("zk1") == ["zk1"]
    assert sorted(nodes({2, 3})) == [2, 3]


def test_sides_must_be_known_and_different() -> None:
    check_sides([1], [2, "zk1"], {1, 2, "zk1"})
    with pytest.raises(ValueError, match="no server 3"):
        check_sides([1], [3], [1, 2])
    with pytest.raises(ValueError, match=r"\['2'\] cannot be on both sides"):
        check_sides([1, 2], [2], [1, 2])


@pytest.mark.parametrize(("brokers", "factor"), [(1, "1"), (2, "2"), (3, "3"), (9, "3")])
def test_internal_topics_have_replicas_on_up_to_three_brokers(brokers: int, factor: str) -> None:
    settings = broker_settings(brokers, "h:2181/chroot")
    assert settings["offsets.topic.replication.factor"] == factor
    assert settings["zookeeper.connect"] == "h:2181/chroot"


def test_classes_are_found_at_their_first_use() -> None:
    assert kafkalite.testing.LocalCluster is LocalCluster
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = kafkalite.testing.Nothing
