"""Another broker goes on from the log: offsets, balanced groups, generations; any interleaving, any moment."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from kafkalite.coordinators.group.group import GroupState
from kafkalite.coordinators.group.requests import DeleteGroup, JoinReply, Sync
from kafkalite.coordinators.group.settings import GroupSettings
from kafkalite.errors import ErrorCode
from tests.unit.coordinators.scene import GROUP, Call, Scene
from tests.unit.coordinators.test_membership import balanced


def durable(scene: Scene) -> dict[str, object]:
    """What the log determines."""
    return {
        name: (group.stored_value, dict(group.offsets.items()))
        for name, group in scene.machine.groups.items()
        if group.stored_value is not None or len(group.offsets)
    }


def test_a_balanced_group_goes_on_as_if_nothing_had_happened() -> None:
    scene, members = balanced(3)
    scene.commit_offsets(("t", 0, 42), member_id=members[0], generation=1)
    successor = scene.fail_over()
    assert all(successor.heartbeat(member) is ErrorCode.NONE for member in members)
    assert successor.group().leader_id == scene.group().leader_id
    assert successor.sync(members[1]).reply.assignment == members[1].encode()
    assert successor.offset("t", 0) == 42


def test_members_that_died_with_the_coordinator_are_noticed() -> None:
    scene, (first, second) = balanced(2, session_ms=10_000)
    successor = scene.fail_over()
    for _ in range(10):
        successor.advance(1000)
        successor.heartbeat(first)
    assert successor.heartbeat(second) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_generation_that_was_not_balanced_yet_is_made_again() -> None:
    scene, (first,) = balanced(1)
    newcomer, _ = scene.enter()
    scene.join(first)
    assert scene.group().generation == 2
    successor = scene.fail_over()
    assert successor.heartbeat(first, 2) is ErrorCode.ILLEGAL_GENERATION
    assert successor.heartbeat(newcomer, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert successor.join(first).reply.generation == 2


def test_the_generation_of_an_empty_group_is_kept() -> None:
    scene, (member,) = balanced(1)
    scene.leave(member)
    successor = scene.fail_over()
    assert (successor.group().state, successor.group().generation) == (GroupState.EMPTY, 2)
    call = successor.enter()
    successor.advance(0)
    assert call[1].reply.generation == 3


class Fleet:
    """Members that follow the protocol, at random speed; they know only what they were told."""

    def __init__(self, scene: Scene, rng: random.Random) -> None:
        self.scene, self.rng = scene, rng
        self.ids: dict[int, str] = {}
        self.generations: dict[int, int] = {}
        self.joining: dict[int, Call] = {}
        self.syncing: dict[int, tuple[int, Call]] = {}
        self.owners: dict[int, dict[str, str]] = defaultdict(dict)
        """By generation and partition: the member that was told to own it."""
        self.assigned: dict[int, dict[str, bytes]] = {}
        """By generation: what its leader sent."""
        self.newest = 0

    def step(self, number: int) -> None:
        for joined in list(self.joining):
            self._take_join(joined)
        for synced in list(self.syncing):
            self._take_sync(synced)
        if number in self.joining or number in self.syncing:
            return
        member_id = self.ids.get(number, "")
        if not member_id:
            self._join(number)
            return
        action = self.rng.random()
        if action < 0.6:
            code = self.scene.heartbeat(member_id, self.generations[number])
            if code is ErrorCode.REBALANCE_IN_PROGRESS:
                self._join(number)
            elif code is not ErrorCode.NONE:
                self._start_over(number, code)
        elif action < 0.7:
            if self.scene.leave(member_id) is ErrorCode.NONE:
                self._start_over(number, ErrorCode.UNKNOWN_MEMBER_ID)
        elif action < 0.75:
            self._start_over(number, ErrorCode.UNKNOWN_MEMBER_ID)  # it dies; another takes its number
        elif action < 0.95:
            offset = (self.scene.offset("t", number) or 0) + 1
            self.scene.commit_offsets(("t", number, offset), member_id=member_id, generation=self.generations[number])
        else:
            self._join(number)

    def _start_over(self, number: int, code: ErrorCode) -> None:
        if code is not ErrorCode.ILLEGAL_GENERATION:
            self.ids.pop(number, None)
            self.generations.pop(number, None)
        else:
            self._join(number)

    def _join(self, number: int) -> None:
        call = self.scene.join(self.ids.get(number, ""), session_ms=6000, rebalance_ms=8000)
        self.joining[number] = call
        self._take_join(number)

    def _take_join(self, number: int) -> None:
        reply: JoinReply | None = self.joining[number].reply
        if reply is None:
            return
        del self.joining[number]
        if reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.ids[number] = reply.member_id
            self._join(number)
            return
        if reply.error:
            self.ids.pop(number, None)
            return
        self.ids[number], self.generations[number] = reply.member_id, reply.generation
        self.newest = max(self.newest, reply.generation)
        assignments = {}
        if reply.leader == reply.member_id:
            partitions = "abcdef"
            for place, member in enumerate(reply.members):
                assignments[member.member_id] = partitions[place :: len(reply.members)].encode()
            self.assigned[reply.generation] = assignments
        if assignments or self.rng.random() < 0.9:
            call = self.scene.ask(Sync(GROUP, reply.generation, reply.member_id, assignments=assignments))
            self.syncing[number] = (reply.generation, call)
            self._take_sync(number)

    def _take_sync(self, number: int) -> None:
        generation, call = self.syncing[number]
        if call.reply is None:
            return
        del self.syncing[number]
        if call.reply.error:
            return
        assert call.reply.assignment == self.assigned[generation].get(self.ids[number], b"")
        for partition in call.reply.assignment.decode():
            owner = self.owners[generation].setdefault(partition, self.ids[number])
            assert owner == self.ids[number], f"{partition} has two owners in generation {generation}"


@pytest.mark.parametrize("seed", range(40))
def test_any_interleaving(seed: int) -> None:
    """One owner for each partition of a generation, generations only grow, and the log says all that counts."""
    rng = random.Random(seed)
    scene = Scene(GroupSettings(initial_rebalance_delay_ms=rng.choice((0, 500))))
    scene.holding = True
    fleet = Fleet(scene, rng)
    generation, commit_share = 0, rng.choice((0.7, 0.3))
    for _ in range(400):
        fleet.step(rng.randrange(6))
        scene.advance(rng.choice((0, 0, 50, 300, 1500)))
        while scene.held and rng.random() < commit_share:
            scene.commit()
        group = scene.machine.groups.get(GROUP)
        if group is not None:
            assert group.generation >= generation
            generation = group.generation
            assert group.leader_id in group.members or not group.members
            assert group._awaited_joins == sum(member.awaits_join for member in group.members.values())
            assert set(group.static_ids.values()) <= group.members.keys()
    while scene.held:
        scene.commit()
    assert durable(scene.fail_over()) == durable(scene)
    assert fleet.newest > 1, "the members got somewhere"


@pytest.mark.parametrize("seed", range(10))
def test_deletions_and_commits_in_any_order_agree_with_the_log(seed: int) -> None:
    rng = random.Random(seed)
    scene = Scene(holding=True)
    for _ in range(200):
        name = rng.choice("ab")
        choice = rng.random()
        if choice < 0.5:
            scene.commit_offsets(("t", rng.randrange(3), rng.randrange(100)), group_id=name)
        elif choice < 0.6:
            scene.ask(DeleteGroup(name))
        elif scene.held:
            scene.commit()
        assert durable(scene.fail_over()) == durable(scene)
    while scene.held:
        scene.commit()
    successor = scene.fail_over()
    assert durable(successor) == durable(scene)
    assert scene.machine.groups.keys() == successor.machine.groups.keys()
