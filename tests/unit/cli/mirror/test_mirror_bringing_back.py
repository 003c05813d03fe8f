"""Administrators' changes are carried out in the source and compared again; both clusters are in memory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kafkalite.cli.mirror.administered.reading import read_administered
from kafkalite.cli.mirror.administered.state import AtSwitch
from kafkalite.cli.mirror.back.bringing_back import BringingBack
from kafkalite.cli.mirror.back.changes import WantedBack
from kafkalite.cli.mirror.clusters import Clusters
from kafkalite.cli.mirror.files import MirrorDirectory, MirrorFileError, MirrorState
from kafkalite.cli.mirror.plan import KnownTopic
from kafkalite.client import (
    AclBinding,
    AclEntry,
    ClientError,
    Operation,
    PatternType,
    PermissionType,
    QuotaEntity,
    ResourcePattern,
    ResourceType,
)
from tests.unit.cli.mirror.administered_side import AdministeredSide

ALICE = QuotaEntity((("user", "alice"),))


def acl(name: str, pattern: PatternType = PatternType.LITERAL) -> AclBinding:
    resource = ResourcePattern(ResourceType.TOPIC, name, pattern)
    return AclBinding(resource, AclEntry("User:a", "*", Operation.READ, PermissionType.ALLOW))


class Room:
    """Both clusters after the switch of topic "t", and the directory of the mirror."""

    def __init__(self, path: Path) -> None:
        self.source, self.target = AdministeredSide("s"), AdministeredSide("t")
        for side in (self.source, self.target):
            side.make_topic("t", 2, 1, {"retention.ms": "1"})
            side.acls = {acl("t"), acl("old")}
        self.files = MirrorDirectory(path)
        self.files.write_state(
            MirrorState("a", "b", 900, "00" * 16, {"t": KnownTopic("s-t-0", "t-t-0")}, is_switched=True)
        )
        target: Any = self.target
        self.files.write_at_switch(AtSwitch(asyncio.run(read_administered(target, target))))

    def start(self, **wanted: Any) -> BringingBack:
        """Return what a new process has."""
        state = self.files.read_state()
        assert state is not None
        sides: Any = Clusters(self.source, self.source, self.target, self.target)  # type: ignore[arg-type]
        return BringingBack(sides, self.files, state, WantedBack(**wanted))

    def change_target(self) -> None:
        """Change something of each kind."""
        self.target.make_topic("new", 3, 2, {"retention.ms": "5"})
        self.target.settings["t"] = {"cleanup.policy": "compact"}
        self.target.acls = {acl("t"), acl("t", PatternType.PREFIXED)}
        self.target.quotas = {ALICE: {"producer_byte_rate": 5.0}}


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_all_kinds_of_changes_are_made_and_counted(room: Room) -> None:
    room.change_target()
    changes = room.start()
    assert asyncio.run(changes.bring_back()) == ([], [])
    assert changes.count() == (7, 7)
    assert len(room.source.topics["new"].partitions) == 3 and room.source.settings["new"] == {"retention.ms": "5"}
    assert room.source.settings["t"] == {"cleanup.policy": "compact"}
    assert (room.source.acls, room.source.quotas) == (room.target.acls, room.target.quotas)
    state = room.files.read_state()
    assert state is not None and state.topics["new"] == KnownTopic("s-new-0", "t-new-0")
    room.source.calls.clear()
    assert asyncio.run(room.start().bring_back()) == ([], []) and room.source.calls == [], (
        "a second call has nothing to do"
    )


def test_what_is_changed_back_in_the_target_is_changed_back_in_the_source(room: Room) -> None:
    room.change_target()
    assert asyncio.run(room.start().bring_back()) == ([], [])
    room.target.settings["t"] = {"retention.ms": "1"}
    room.target.acls, room.target.quotas = {acl("t"), acl("old")}, {}
    assert asyncio.run(room.start().bring_back()) == ([], [])
    assert room.source.settings["t"] == {"retention.ms": "1"}
    assert (room.source.acls, room.source.quotas) == ({acl("t"), acl("old")}, {})


def test_changes_that_are_accepted_and_not_made_are_missed(room: Room) -> None:
    room.change_target()
    room.source.is_deaf = True
    changes = room.start()
    problems, missing = asyncio.run(changes.bring_back())
    assert problems == [] and len(missing) == 7 and changes.count() == (0, 7)
    assert "not in the source yet: topic new: nothing becomes 3 partitions, 2 replicas" in missing
    room.source.is_deaf = False
    assert asyncio.run(changes.bring_back()) == ([], []) and changes.count() == (7, 7)


def test_what_the_source_refuses_is_named_and_the_rest_is_done(room: Room) -> None:
    room.change_target()
    room.source.refused_setting = "cleanup.policy"
    problems, missing = asyncio.run(room.start().bring_back())
    assert (
        problems == ["the source refuses: topic t: cleanup.policy: INVALID_CONFIG"] or "cleanup.policy" in problems[0]
    )
    assert {each.split(":")[1].split(" ")[1] for each in missing} == {"setting"}
    assert room.source.quotas == room.target.quotas


def test_a_plan_is_validated_without_a_change(room: Room) -> None:
    room.change_target()
    changes = room.start()

    async def play() -> list[str]:
        return await changes.validate(await changes.plan())

    assert asyncio.run(play()) == []
    assert room.source.calls == ["validate create new", "validate settings t", f"validate quotas {ALICE}"]
    at_switch = room.files.read_at_switch()
    assert at_switch is not None and at_switch.brought_back == set()


def test_topics_are_deleted_only_when_the_target_says_that_it_has_none(room: Room) -> None:
    room.target.hidden = {"t"}
    plan = asyncio.run(room.start(deletes={"t"}).plan())
    assert plan.deletions == [] and "topic t is not shown by the target, which may have it" in plan.uncopied[0]
    assert asyncio.run(room.start(deletes={"t"}).bring_back()) == ([], []) and "t" in room.source.topics
    del room.target.topics["t"]
    room.target.hidden = set()
    assert asyncio.run(room.start().bring_back()) == ([], []) and "t" in room.source.topics, "nobody asked for it"
    assert asyncio.run(room.start(deletes={"t"}).bring_back()) == ([], [])
    assert "t" not in room.source.topics


def test_a_creation_that_was_interrupted_is_finished(room: Room) -> None:
    room.change_target()
    room.source.is_deaf = True
    asyncio.run(room.start().bring_back())
    state = room.files.read_state()
    assert state is not None and state.topics["new"] == KnownTopic("", "t-new-0", is_unconfirmed=True)
    room.source.is_deaf = False
    assert asyncio.run(room.start().bring_back()) == ([], [])
    state = room.files.read_state()
    assert state is not None and state.topics["new"].source_id == "s-new-0"


def test_a_topic_that_somebody_else_makes_at_the_same_moment_is_not_adopted(room: Room) -> None:
    room.change_target()
    room.target.make_topic("second")
    room.source.made_by_others = {"new": 1}
    for _ in range(2):
        changes = room.start()
        problems, _ = asyncio.run(changes.bring_back())
        assert any("topic new was made in the target, and the source has one of that name" in each for each in problems)
        state = room.files.read_state()
        assert state is not None and state.topics["new"] == KnownTopic("", "t-new-0", is_unconfirmed=True)
        assert state.topics["second"] == KnownTopic("s-second-0", "t-second-0"), "what was made beside it is its own"
    assert room.source.settings["new"] == {} and len(room.source.topics["new"].partitions) == 1, "it is left alone"
    assert asyncio.run(room.start(left=["new"]).bring_back()) == ([], [])
    del room.source.topics["new"]
    assert asyncio.run(room.start().bring_back()) == ([], [])
    state = room.files.read_state()
    assert state is not None and state.topics["new"] == KnownTopic("s-new-0", "t-new-0")


def test_a_topic_whose_creation_was_not_answered_may_be_of_somebody_else(room: Room) -> None:
    room.change_target()
    room.source.is_mute = True
    with pytest.raises(ClientError, match="creating topics"):
        asyncio.run(room.start().bring_back())
    room.source.is_mute = False
    problems, missing = asyncio.run(room.start().bring_back())
    assert missing == [] and "nothing was copied into it: delete it in the source, or --leave new" in problems[0]


def test_notes_name_users_and_what_is_of_kafka_4_alone(room: Room) -> None:
    room.target.users = {"u": {"SCRAM-SHA-256": 4096}}
    room.target.unknown_acls = [("User:x", 15)]
    room.target.settings["t"]["new.in.kafka.4"] = "x"
    changes = room.start()
    assert asyncio.run(changes.bring_back()) == ([], [])
    told = "\n".join(changes.notes)
    assert "set the passwords of u in the source" in told and "operation 15 on t" in told and "new.in.kafka.4=x" in told


def test_a_file_that_tells_nothing_of_the_switch_is_refused(room: Room) -> None:
    (room.files.path / "at-switch.json").write_text("{}")
    with pytest.raises(MirrorFileError, match="does not tell what the target had at the switch"):
        room.start()
