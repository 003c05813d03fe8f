"""What is brought back of administrators' changes, and what is not. Pure."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from kafkalite.cli.mirror.administered.state import Administered, AtSwitch, TopicState
from kafkalite.cli.mirror.back.changes import (
    NO_SNAPSHOT,
    ChangePlan,
    Source,
    WantedBack,
    find_leavable,
    plan_changes,
)
from kafkalite.cli.mirror.plan import KnownTopic
from kafkalite.client import QuotaEntity
from kafkalite.security.acl import (
    AclBinding,
    AclEntry,
    Operation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)

KNOWN = {"t": KnownTopic("s1", "t1")}
ALICE = QuotaEntity((("user", "alice"),))
EVERYBODY = QuotaEntity((("client-id", None), ("user", None)))
CAN_HAVE = Source(3, {"retention.ms", "cleanup.policy"}, {"producer_byte_rate"})


def acl(principal: str, permission: PermissionType = PermissionType.ALLOW) -> AclBinding:
    resource = ResourcePattern(ResourceType.TOPIC, "t", PatternType.PREFIXED)
    return AclBinding(resource, AclEntry(principal, "10.0.0.1", Operation.READ, permission))


def side(topic_id: str, partitions: int = 2, **changes: Any) -> Administered:
    """A cluster with topic "t"."""
    settings = changes.pop("settings", {})
    return replace(Administered({"t": TopicState(topic_id, partitions, 3, settings)}, frozenset()), **changes)


THEN = side("t1")


def plan(
    source: Administered, target: Administered, then: AtSwitch | None = None, known: Any = KNOWN, **wanted: Any
) -> ChangePlan:
    return plan_changes(then or AtSwitch(THEN), source, target, known, CAN_HAVE, WantedBack(**wanted))


def texts(found: ChangePlan) -> list[str]:
    return [str(each) for each in found.changes]


def test_nothing_is_done_where_the_target_is_as_it_was() -> None:
    source = side("s1", settings={"retention.ms": "7"}, acls=frozenset({acl("User:own")}), quotas={ALICE: {"x": 1.0}})
    assert plan(source, THEN) == ChangePlan(), "what only the source has stays there"


def test_settings_that_were_changed_in_the_target_become_those_of_the_source() -> None:
    then = AtSwitch(side("t1", settings={"retention.ms": "1", "cleanup.policy": "compact"}))
    target = side("t1", settings={"retention.ms": "2", "kafkalite.new": "x", "message.format.version": "3.0"})
    found = plan(side("s1", settings={"retention.ms": "9", "cleanup.policy": "compact"}), target, then)
    assert found.settings == {"t": {"retention.ms": "2", "cleanup.policy": None}}
    assert texts(found) == ["setting t cleanup.policy: compact becomes nothing", "setting t retention.ms: 9 becomes 2"]
    assert plan(side("s1", settings={"retention.ms": "2"}), target, then) == ChangePlan(), "it is there already"


def test_what_was_brought_back_once_follows_the_target_also_to_what_it_was() -> None:
    source, then = side("s1", settings={"retention.ms": "2"}), AtSwitch(THEN)
    assert plan(source, THEN, then).settings == {}
    then.brought_back = {"setting t retention.ms"}
    assert plan(source, THEN, then).settings == {"t": {"retention.ms": None}}


def test_settings_that_the_source_does_not_know_are_named_and_left_out() -> None:
    found = plan(side("s1"), side("t1", settings={"new.in.kafka.4": "x"}))
    assert found.changes == [] and found.problems == []
    assert found.left_out == ["topic t: new.in.kafka.4=x is not brought back: the source's brokers do not know it"]


def test_partitions_are_added_and_never_taken_away() -> None:
    assert texts(plan(side("s1", 2), side("t1", 5))) == ["partitions t: 2 becomes 5"]
    assert plan(side("s1", 5), side("t1", 2)).changes == []


def with_new(target: Administered, **topic: Any) -> Administered:
    new = TopicState("t2", 4, 3, {"retention.ms": "5", "new.in.kafka.4": "x"})
    return replace(target, topics={**target.topics, "new": replace(new, **topic)})


def test_a_topic_that_was_made_in_the_target_is_made_with_what_the_source_knows() -> None:
    found = plan(side("s1"), with_new(THEN))
    assert found.creations == {"new": TopicState("t2", 4, 3, {"retention.ms": "5"})}
    assert texts(found) == [
        "topic new: nothing becomes 4 partitions, 3 replicas",
        "setting new retention.ms: nothing becomes 5",
    ]
    assert "new.in.kafka.4=x" in found.left_out[0]
    scarce = plan(side("s1"), with_new(THEN, replicas=4))
    assert scarce.changes == [] and "is to have 4 replicas, and the source has 3 brokers" in scarce.problems[0]
    assert plan(side("s1"), with_new(THEN, replicas=4), replication_factor=1).creations["new"].replicas == 1


def test_a_topic_that_is_begun_is_made_once_and_compared_from_then_on() -> None:
    begun = {**KNOWN, "new": KnownTopic("", "t2", is_unconfirmed=True)}
    assert "new" in plan(side("s1"), with_new(THEN), known=begun).creations, "it was killed before"
    source = with_new(side("s1"), topic_id="s2", settings={"retention.ms": "4"}, partitions=3)
    made = {**KNOWN, "new": KnownTopic("s2", "t2")}
    assert texts(plan(source, with_new(THEN), known=made)) == [
        "partitions new: 3 becomes 4",
        "setting new retention.ms: 4 becomes 5",
    ]
    gone = plan(side("s1"), with_new(THEN), known=made)
    assert gone.changes == [], "deleted in the source: the copy of records names it"


def test_a_topic_of_the_source_that_may_be_of_somebody_else_is_neither_adopted_nor_deleted() -> None:
    begun = {**KNOWN, "new": KnownTopic("", "t2", is_unconfirmed=True)}
    source = with_new(side("s1"), topic_id="s2", settings={"retention.ms": "4"})
    found = plan(source, with_new(THEN), known=begun)
    assert found.changes == [] and "somebody else may have made" in found.problems[0] and found.uncopied == []
    gone = plan(source, THEN, known=begun, deletes=begun)
    assert (gone.changes, gone.uncopied) == ([], []), "it is gone in the target: nothing is said of what the source has"


def test_a_topic_is_left_also_after_it_was_begun() -> None:
    for known in (KNOWN, KNOWN | {"new": KnownTopic("", "t2", is_unconfirmed=True)}):
        for source in (side("s1"), with_new(side("s1"), topic_id="other")):
            left = plan(source, with_new(THEN), known=known, left=["new"])
            assert left == ChangePlan(left_out=["topic new was made in the target, and is left there (--leave)"])
    made, source = KNOWN | {"new": KnownTopic("s2", "t2")}, with_new(side("s1"), topic_id="s2", partitions=1)
    assert plan(source, with_new(THEN), known=made).changes, "without the option it is as in the target"
    left = plan(source, with_new(THEN), known=made, left=["new"])
    (told,) = left.left_out
    assert left.changes == [] and "the source has what was copied of it before" in told
    gone = plan(source, THEN, known=made, left=["new"])
    assert gone == ChangePlan(), "deleted in the target meanwhile"


def test_only_topics_that_were_made_since_the_switch_can_be_left() -> None:
    then = AtSwitch(with_new(THEN, topic_id="before"))
    assert find_leavable(AtSwitch(THEN), with_new(THEN), KNOWN) == ["new"]
    assert find_leavable(then, with_new(THEN, topic_id="before"), KNOWN) == []
    assert find_leavable(then, with_new(THEN), KNOWN) == ["new"], "made again"
    assert find_leavable(AtSwitch(THEN), THEN, {**KNOWN, "begun": KnownTopic("", "t3", True)}) == ["begun"]


def test_topics_that_are_not_copied_are_part_of_the_plan() -> None:
    gone, again = replace(THEN, topics={}), side("t9")
    (told,) = plan(side("s1"), gone).uncopied
    assert told == "topic t is not in the target any more: delete it in the source, or call this with --delete-topics"
    assert "was deleted in the target and made again" in plan(side("s1"), again).uncopied[0]
    assert "was deleted in the source and made again" in plan(side("s9"), THEN).uncopied[0]
    assert "is not in the source any more" in plan(replace(THEN, topics={}), THEN).uncopied[0]
    for target in (gone, again):
        assert plan(side("s1"), target, deletes={"t"}).uncopied == [], "it is deleted by then"
    assert plan(side("s1"), again, left=["t"]).uncopied, "the mirrored one is not what is left"
    assert plan(side("s1"), THEN).uncopied == []


def test_a_topic_that_is_not_shown_is_not_taken_for_a_deleted_one() -> None:
    hidden = replace(THEN, topics={}, unknown_topics={"t": "is not shown by the target"})
    found = plan(side("s1"), hidden, deletes={"t"})
    assert found == ChangePlan(uncopied=["topic t is not shown by the target"])
    source = replace(THEN, topics={}, unknown_topics={"t": "is not shown by the source"})
    assert plan(source, THEN) == ChangePlan(uncopied=["topic t is not shown by the source"])


def test_topics_that_are_not_to_be_made_are_named() -> None:
    there = plan(with_new(side("s1"), topic_id="other"), with_new(THEN))
    assert there.changes == [] and "the source has another one of that name" in there.problems[0]
    left = plan(side("s1"), with_new(THEN), left=["new"])
    assert left == ChangePlan(left_out=["topic new was made in the target, and is left there (--leave)"])
    before = plan(side("s1"), with_new(THEN), AtSwitch(with_new(THEN)))
    assert before == ChangePlan(left_out=["topic new was in the target before the switch, and is not copied"])


def test_topics_are_deleted_only_if_they_are_named_and_are_the_mirrored_ones() -> None:
    gone = replace(THEN, topics={})
    assert plan(side("s1"), gone).changes == []
    found = plan(side("s1"), gone, deletes={"t", "other"})
    assert found.deletions == ["t"] and texts(found) == ["topic t: 2 partitions, 3 replicas becomes nothing"]
    assert plan(side("s9"), gone, deletes={"t"}).changes == [], "another one of that name"
    assert plan(side("s1"), THEN, deletes={"t"}) == ChangePlan(), "it is there"
    assert plan(side("s1"), gone, known={}, deletes={"t"}) == ChangePlan()


def test_a_topic_that_was_made_again_is_deleted_first_and_made_then() -> None:
    again = side("t9")
    assert plan(side("s1"), again).changes == []
    found = plan(side("s1"), again, deletes={"t"})
    assert found.deletions == ["t"] and "is made again once the old one is deleted" in found.left_out[0]
    wide = replace(THEN, topics={"t": TopicState("t9", 2, 4, {})})
    refused = plan(side("s1"), wide, deletes={"t"})
    assert refused.deletions == [] and "is to have 4 replicas, and the source has 3 brokers" in refused.problems[0]
    assert plan(side("s1"), wide, deletes={"t"}, left={"t"}).deletions == ["t"]
    after = plan(replace(THEN, topics={}), again, deletes={"t"})
    assert after.creations == {"t": TopicState("t9", 2, 3, {})} and after.deletions == []


def test_acls_are_added_and_removed_as_in_the_target() -> None:
    old, new, own = acl("User:old"), acl("User:new", PermissionType.DENY), acl("User:own")
    then = AtSwitch(replace(THEN, acls=frozenset({old})))
    target, source = replace(THEN, acls=frozenset({new})), side("s1", acls=frozenset({old, own}))
    found = plan(source, target, then)
    assert (found.new_acls, found.old_acls) == ([new], [old])
    assert texts(found) == [
        "acl User:new from 10.0.0.1 may not Read Topic prefix t: nothing becomes added",
        "acl User:old from 10.0.0.1 may Read Topic prefix t: there becomes nothing",
    ]
    then.brought_back = {f"acl {new}"}
    assert plan(replace(source, acls=frozenset({old, new})), then.target, then).old_acls == [new], "removed again"


def test_acls_need_an_authorizer_on_both_sides() -> None:
    target = replace(THEN, acls=frozenset({acl("User:new")}), unknown_acls=("of User:x for operation 15",))
    found = plan(side("s1", acls=None), target)
    assert found.changes == [] and "1 ACLs that were added in the target" in found.problems[0]
    assert found.left_out == ["ACL of User:x for operation 15 is not brought back: the source's brokers do not know it"]
    assert plan(side("s1"), target, AtSwitch(target)).left_out == [], "it was there before"
    then = AtSwitch(replace(THEN, acls=frozenset({acl("User:old")})))
    gone = plan(side("s1", acls=frozenset({acl("User:old")})), replace(THEN, acls=None), then)
    assert gone == ChangePlan(left_out=["the target has no authorizer any more: the source's ACLs stay as they are"])


def test_quotas_are_set_and_removed_as_in_the_target() -> None:
    then = AtSwitch(replace(THEN, quotas={ALICE: {"producer_byte_rate": 10.0}}))
    source = side("s1", quotas={ALICE: {"producer_byte_rate": 10.0}})
    target = replace(THEN, quotas={EVERYBODY: {"producer_byte_rate": 2e6, "new_rate": 1.0}})
    found = plan(source, target, then)
    assert found.quotas == {ALICE: {"producer_byte_rate": None}, EVERYBODY: {"producer_byte_rate": 2e6}}
    assert texts(found) == [
        "quota default user, default client-id producer_byte_rate: nothing becomes 2000000",
        "quota user alice producer_byte_rate: 10 becomes nothing",
    ]
    assert "quota new_rate=1.0" in found.left_out[0]


def test_a_directory_without_what_was_there_at_the_switch_brings_back_partitions_alone() -> None:
    target = with_new(side("t1", 3, settings={"retention.ms": "2"}, acls=frozenset({acl("User:new")})))
    found = plan_changes(None, side("s1"), target, KNOWN, CAN_HAVE, WantedBack())
    assert texts(found) == ["partitions t: 2 becomes 3"] and NO_SNAPSHOT in found.left_out


def test_what_was_there_at_the_switch_outlives_the_process() -> None:
    there = side("t1", settings={"a": "b"}, acls=frozenset({acl("User:a"), acl("User:b")}))
    there = replace(there, unknown_acls=("u",), quotas={EVERYBODY: {"x": 1.5}}, users={"u": {"SCRAM-SHA-256": 4096}})
    then = AtSwitch(there, {"setting t a"})
    assert AtSwitch.from_json(json.loads(json.dumps(then.to_json()))) == then
    assert AtSwitch.from_json(AtSwitch(Administered()).to_json()) == AtSwitch(Administered())
