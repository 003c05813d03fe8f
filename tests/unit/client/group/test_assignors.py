"""Assignors give what Kafka's Java client gave in recorded cases, and keep their promises on others."""

from __future__ import annotations

import pytest

from kafkalite.client.group.assignors import ASSIGNORS, CooperativeStickyAssignor, StickyAssignor, assignors_named
from kafkalite.client.group.consumer_protocol import Subscription, encode_sticky_data
from kafkalite.types import TopicPartition
from tests.unit.client.java_vectors import answer, assignor_questions, in_order, parse_member, recorded


@pytest.mark.parametrize("name", ASSIGNORS)
def test_results_are_javas(name: str) -> None:
    cases = [(question, java) for question, java in recorded("assignments") if question.split(" ")[1] == name]
    assert len(cases) == 40
    for question, java in cases:
        ours = answer(question)
        if name == "range":  # Java's order of topics within a member is that of a hash map, and means nothing
            ours, java = in_order(ours), in_order(java)
        assert ours == java, question


def test_every_partition_with_a_reader_is_assigned_once_to_a_reader() -> None:
    for question in assignor_questions(seed=99, count=400):
        _, name, counts, *texts = question.split(" ")
        members = dict(map(parse_member, texts))
        wanted = {topic for member in members.values() for topic in member.topics}
        expected = {
            TopicPartition(topic, number)
            for topic, count in (each.split("=") for each in counts.split(","))
            for number in range(int(count))
            if topic in wanted
        }
        result = dict(parse_result(answer(question)))
        given = [each for partitions in result.values() for each in partitions]
        assert len(given) == len(set(given)), question
        if name == "cooperative-sticky":
            held = {each for member in members.values() for each in member.owned_partitions}
            assert expected - set(given) <= held, "only what must first be given up may stay out"
        else:
            assert set(given) == expected, question
        for member_id, partitions in result.items():
            assert {each.topic for each in partitions} <= set(members[member_id].topics), question


def parse_result(text: str) -> list[tuple[str, tuple[TopicPartition, ...]]]:
    from tests.unit.client.java_vectors import parse_partitions

    return [
        (member, parse_partitions(partitions)) for member, partitions in (each.split("=") for each in text.split(" "))
    ]


def test_a_cooperative_partition_changes_hands_in_two_steps() -> None:
    assignor = CooperativeStickyAssignor()
    all_of_it = tuple(TopicPartition("t", number) for number in range(4))
    members = {"a": Subscription(("t",), None, all_of_it, 1), "b": Subscription(("t",), None, (), 1)}
    first = assignor.assign({"t": 4}, members)
    assert (first["a"], first["b"]) == ([*all_of_it[:2]], []), "b waits until a has given up"
    members["a"] = Subscription(("t",), None, tuple(first["a"]), 2)
    second = assignor.assign({"t": 4}, members)
    assert (second["a"], second["b"]) == ([*all_of_it[:2]], [*all_of_it[2:]])


def test_data_of_another_kind_counts_as_nothing_owned() -> None:
    members = {"a": Subscription(("t",), b"\0\0\0\5garbage"), "b": Subscription(("t",))}
    assert {len(each) for each in StickyAssignor().assign({"t": 4}, members).values()} == {2}


def test_a_partition_does_not_go_back_to_one_who_left_its_topic() -> None:
    stale = encode_sticky_data((TopicPartition("u", 0),), 6)
    members = {
        "a": Subscription(("t",), stale),
        "b": Subscription(("t", "u"), encode_sticky_data(tuple(TopicPartition("u", n) for n in range(5)), 7)),
    }
    result = StickyAssignor().assign({"t": 1, "u": 5}, members)
    assert {each.topic for each in result["a"]} == {"t"}


def test_hundreds_of_members_are_assigned_quickly() -> None:
    counts = {f"t{number}": 20 for number in range(20)}
    members = {f"m{number}": Subscription(tuple(list(counts)[: 10 + number % 10])) for number in range(100)}
    result = StickyAssignor().assign(counts, members)
    assert sum(map(len, result.values())) == 400 - 20
    assert max(map(len, result.values())) - min(map(len, result.values())) <= 1


def test_assignors_by_name() -> None:
    assert [each.name for each in assignors_named("range, cooperative-sticky")] == ["range", "cooperative-sticky"]
    java = "org.apache.kafka.clients.consumer.StickyAssignor"
    assert [each.name for each in assignors_named(java)] == ["sticky"]
    assert assignors_named([StickyAssignor()])[0].name == "sticky"
    for wrong in ("nearest", "", ["range", "range"]):
        with pytest.raises(ValueError):
            assignors_named(wrong)
