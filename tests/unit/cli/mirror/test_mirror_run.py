"""A mirror at work from its start to its end, also when the switch is interrupted; both clusters and the controllers are in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.cli.mirror import files, mirroring, switching
from kafkalite.cli.mirror.clusters import Clusters
from kafkalite.cli.mirror.files import MirrorDirectory, MirrorState
from kafkalite.cli.mirror.mirroring import Mirror, Wanted
from kafkalite.cli.mirror.plan import KnownTopic
from kafkalite.cli.mirror.positions import Positions
from kafkalite.client import (
    AclBinding,
    AclEntry,
    ClientError,
    ClientQuota,
    ConfigResource,
    Operation,
    PatternType,
    PermissionType,
    QuotaEntity,
    ResourcePattern,
    ResourceType,
)
from kafkalite.client.cluster.view import BrokerNode, ClusterView, PartitionView
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition, topic_id_to_text

TIMEOUT_S = 20
MIRROR = 900
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SOURCE_ID, TARGET_ID = topic_id_to_text(b"s" * 16), topic_id_to_text(b"t" * 16)


class Side:
    """A cluster with a topic of two partitions; it is the cluster client and the admin in one."""

    def __init__(self, topic_id: str, leader: int, replicas: tuple[int, ...]) -> None:
        self.topic_id = topic_id
        self.view = ClusterView(brokers={1: BrokerNode(1, "h", 1)})
        self.partitions = {each: PartitionView("t", each, leader, 0, replicas, (leader,)) for each in range(2)}
        self.ends = {T0: 5, T1: 5}
        self.positions = Positions()
        """Its followers are always where it ends."""
        self.failures: list[Exception] = []
        """What happens when the mirror leaves."""
        self.settings: dict[str, str] = {}
        self.acls: set[AclBinding] = set()
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.is_hidden = False
        """True while its topic may not be described."""

    def watch_all_topics(self) -> None:
        pass

    async def refresh(self) -> None:
        pass

    async def request_any(self, request: Any) -> Any:
        if isinstance(request, messages.DescribeAclsRequest):
            return messages.DescribeAclsResponse(resources=[_tell_acl(each) for each in sorted(self.acls)])
        if isinstance(request, messages.MetadataRequest):
            topic = messages.metadata_response.MetadataResponseTopic
            names = [each.name for each in request.topics or ()]
            return messages.MetadataResponse(
                topics=[topic(error_code=self._find_error(name), name=name) for name in names]
            )
        if self.failures:
            raise self.failures.pop()
        return None

    def _find_error(self, name: str | None) -> int:
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED if self.is_hidden else ErrorCode.NONE
        return refused if name == "t" else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def list_topics(self, include_internal: bool = False) -> list[str]:
        return [] if self.is_hidden else ["t"]

    async def describe_topics(self, names: list[str]) -> list[Any]:
        return [SimpleNamespace(name="t", topic_id=self.topic_id, partitions=tuple(self.partitions.values()))]

    async def describe_resource_configs(self, resources: list[ConfigResource]) -> Any:
        found = {
            key: SimpleNamespace(name=key, value=value, source="DYNAMIC_TOPIC_CONFIG")
            for key, value in self.settings.items()
        }
        return dict.fromkeys(resources, found)

    async def incremental_alter_configs(self, changes: Any) -> None:
        for each in (each for some in changes.values() for each in some):
            self.settings.pop(each.name, None)
            if each.operation == "set":
                self.settings[each.name] = each.value

    async def create_acls(self, acls: list[AclBinding]) -> None:
        self.acls |= set(acls)

    async def describe_client_quotas(self) -> list[ClientQuota]:
        return [ClientQuota(entity, quotas) for entity, quotas in self.quotas.items()]

    async def alter_client_quotas(self, changes: Any) -> None:
        self.quotas |= changes

    async def list_offsets(self, asked: dict[TopicPartition, str], isolation_level: str = "") -> Any:
        for place in asked:
            self.positions.note_follower(place, 1, 51, self.ends[place])
        return {place: SimpleNamespace(offset=self.ends[place]) for place in asked}

    async def _list_nothing(self, *_: Any) -> Any:
        return {}

    list_groups = describe_user_scram_credentials = _list_nothing
    describe_producers = _list_nothing


def _tell_acl(acl: AclBinding) -> Any:
    m, (resource, entry) = messages.describe_acls_response, acl
    described = m.AclDescription(
        principal=entry.principal, host=entry.host, operation=entry.operation, permission_type=entry.permission
    )
    return m.DescribeAclsResource(
        resource_type=resource.type, resource_name=resource.name, pattern_type=resource.pattern, acls=[described]
    )


class Quorum:
    """Controllers that hand over all but what fails in turn."""

    is_fenced = False

    def __init__(self, target: Side) -> None:
        self._target = target
        self.refused: list[set[TopicPartition]] = []
        self.after: Callable[[], None] = lambda: None

    async def register(self, cluster_id: str) -> None:
        pass

    async def send_heartbeat(self, **_: bool) -> None:
        pass

    async def raise_epochs(self, fencings: int) -> None:
        pass

    async def hand_over(self, partitions: Any, epochs: Any) -> dict[TopicPartition, int]:
        refused = self.refused.pop(0) if self.refused else set()
        for each in partitions:
            if each.place not in refused:
                number = each.place.partition
                self._target.partitions[number] = PartitionView("t", number, 1, 1, (1,), (1,))
        self.after()
        return dict.fromkeys(refused, ErrorCode.INELIGIBLE_REPLICA)


class Room:
    """Both clusters, and the directory of the mirror between them."""

    def __init__(self, path: Path) -> None:
        self.source, self.target = Side(SOURCE_ID, 7, (7,)), Side(TARGET_ID, MIRROR, (MIRROR, 1))
        self.quorum = Quorum(self.target)
        self.files = MirrorDirectory(path)
        self.files.write_state(MirrorState("a", "b", MIRROR, "00" * 16, {"t": KnownTopic(SOURCE_ID, TARGET_ID)}))

    def start(self, *topics: str) -> asyncio.Task[list[str]]:
        """Start a mirror with what the directory remembers."""
        sides: Any = Clusters(self.source, self.source, self.target, self.target)  # type: ignore[arg-type]
        state, quorum = self.files.read_state(), self.quorum
        assert state is not None
        mirror = Mirror(self.files, state, sides, quorum, Wanted(topics, None, 0.1))  # type: ignore[arg-type]
        mirror.find_notes = lambda: ["of the listener"]
        self.source.positions = mirror.positions
        return asyncio.create_task(mirror.run())

    def status(self) -> dict[str, Any]:
        return self.files.read_status()

    def write_late(self) -> None:
        """A producer goes on at the source."""
        self.source.ends[T0] = 7


LATE = "t-0: the source went on to offset 7 after the switch at 5"


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Room], Awaitable[None]]], None]:
    """Runs a test in a room."""
    monkeypatch.setattr(mirroring, "_POLL_S", 0.01)
    monkeypatch.setattr(switching, "_POLL_S", 0.01)
    monkeypatch.setattr(files, "_REQUEST_S", 10 * TIMEOUT_S)

    async def run(test: Callable[[Room], Awaitable[None]]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await test(Room(tmp_path))

    return lambda test: asyncio.run(run(test))


async def wait_until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        await asyncio.sleep(0.01)


async def stop(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])


def test_a_topic_that_is_asked_for_and_is_not_in_the_source_keeps_a_switch_from_happening(play: Any) -> None:
    async def test(room: Room) -> None:
        room.files.request_switch()
        running = room.start("t", "misspelt")
        await wait_until(lambda: (room.files.path / "status.json").exists() and bool(room.status()["obstacles"]))
        assert room.status()["problems"] == ["topic misspelt of --topic is not in the source"]
        assert room.status()["obstacles"] == room.status()["problems"]
        assert room.status()["notes"] == ["of the listener"]
        await stop(running)

    play(test)


def test_records_that_come_between_two_parts_of_a_switch_are_named(play: Any) -> None:
    async def test(room: Room) -> None:
        def withdraw() -> None:
            room.files.withdraw_switch()
            room.write_late()

        room.quorum.refused, room.quorum.after = [{T1}], withdraw
        room.files.request_switch()
        running = room.start()
        await wait_until(lambda: (room.files.path / "status.json").exists() and room.status()["problems"] == [LATE])
        assert room.status()["handed_over"] == 1
        await stop(running)
        room.quorum.after = lambda: None
        again = room.start()
        room.files.request_switch()
        assert await again == [LATE]
        assert room.status()["phase"] == "switched" and room.status()["handed_over"] == 0

    play(test)


@pytest.mark.parametrize("problem", [ClientError(ErrorCode.REQUEST_TIMED_OUT, "lost"), asyncio.CancelledError()])
def test_records_that_come_after_a_switch_whose_answer_is_lost_are_named(play: Any, problem: BaseException) -> None:
    """Cancelled stands for killed: the next mirror has only the directory."""

    async def test(room: Room) -> None:
        def lose() -> None:
            room.write_late()
            room.quorum.after = lambda: None
            raise problem

        room.quorum.after = lose
        room.files.request_switch()
        running = room.start()
        if isinstance(problem, asyncio.CancelledError):
            await asyncio.wait([running])
            running = room.start()
        assert await running == [LATE]

    play(test)


def test_records_that_come_late_are_named_though_the_mirror_does_not_get_away_at_once(play: Any) -> None:
    async def test(room: Room) -> None:
        room.quorum.after, room.target.failures = room.write_late, [ConnectionError("lost")]
        room.files.request_switch()
        assert await room.start() == [LATE]

    play(test)


def test_late_records_are_told_before_the_state_says_that_all_is_done(
    play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    write = MirrorDirectory.write_state

    def note(files: MirrorDirectory, state: MirrorState) -> None:
        if state.is_switched:
            seen.append(files.read_status()["problems"])
        write(files, state)

    monkeypatch.setattr(MirrorDirectory, "write_state", note)

    async def test(room: Room) -> None:
        room.quorum.after = room.write_late
        room.files.request_switch()
        await room.start()
        assert seen == [[LATE]]

    play(test)


ALICE = QuotaEntity((("user", "alice"),))
READ = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL),
    AclEntry("User:a", "*", Operation.READ, PermissionType.ALLOW),
)
HELD = "unclean.leader.election.enable"


def test_what_administrators_change_while_a_switch_is_interrupted_stays_and_counts_as_changed_since(play: Any) -> None:
    async def test(room: Room) -> None:
        for side in (room.source, room.target):
            side.settings, side.acls = {"retention.ms": "1", HELD: "true"}, {READ}
            side.quotas = {ALICE: {"producer_byte_rate": 5.0}}
        room.quorum.refused, room.quorum.after = [{T1}], room.files.withdraw_switch
        room.files.request_switch()
        running = room.start()
        await wait_until(lambda: (room.files.path / "at-switch.json").exists() and room.status()["handed_over"] == 1)
        await stop(running)
        then = room.files.read_at_switch()
        assert room.target.settings[HELD] == "false", "the rest is mirrored still"
        room.target.settings["retention.ms"] = "2"
        room.target.acls, room.target.quotas = set(), {ALICE: {"producer_byte_rate": 9.0}}
        room.files.request_switch()
        assert await room.start() == []
        assert room.target.settings == {"retention.ms": "2", HELD: "true"}
        assert (room.target.acls, room.target.quotas) == (set(), {ALICE: {"producer_byte_rate": 9.0}})
        assert then is not None and room.files.read_at_switch() == then
        assert then.target.topics["t"].settings == {"retention.ms": "1", HELD: "true"}, (
            "held settings are of the mirror"
        )
        assert then.target.acls == {READ} and then.target.quotas == room.source.quotas

    play(test)


def test_a_topic_that_is_shown_no_more_during_a_switch_is_not_taken_for_one_that_is_led(
    play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switching, "_LEADERS_S", 0.1)

    async def test(room: Room) -> None:
        def hide() -> None:
            room.target.is_hidden = True

        room.quorum.after = hide
        room.files.request_switch()
        running = room.start()
        await wait_until(lambda: (room.files.path / "status.json").exists() and bool(room.status()["problems"]))
        assert room.status()["phase"] != "switched" and "is not shown by the target" in room.status()["problems"][0]
        room.target.is_hidden, room.quorum.after = False, lambda: None
        assert await running == []

    play(test)


def test_what_the_target_had_is_noted_before_a_partition_is_handed_over_and_again_where_none_was(play: Any) -> None:
    async def test(room: Room) -> None:
        room.quorum.refused, room.quorum.after = [{T0, T1}], room.files.withdraw_switch
        room.files.request_switch()
        running = room.start()
        await wait_until(lambda: (room.files.path / "at-switch.json").exists())
        assert room.files.read_at_switch() is not None
        room.target.quotas = {ALICE: {"producer_byte_rate": 9.0}}
        room.quorum.after = lambda: room.target.quotas.clear()
        room.files.request_switch()
        assert await running == []
        then = room.files.read_at_switch()
        assert then is not None and then.target.quotas == {ALICE: {"producer_byte_rate": 9.0}}

    play(test)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_that_is_not_shown_is_not_taken_for_a_deleted_one(play: Any, side: str) -> None:
    async def test(room: Room) -> None:
        (room.source if side == "source" else room.target).is_hidden = True
        running = room.start()
        await wait_until(lambda: (room.files.path / "status.json").exists() and bool(room.status()["problems"]))
        (problem,) = room.status()["problems"]
        assert problem.startswith(f"topic t is not shown by the {side}, which may have it")
        await stop(running)

    play(test)


def test_epochs_of_partitions_that_are_handed_over_are_not_waited_for(play: Any) -> None:
    async def test(room: Room) -> None:
        room.source.partitions[0] = PartitionView("t", 0, 7, 9, (7,), (7,))
        room.target.partitions[0] = PartitionView("t", 0, 1, 1, (1,), (1,))
        room.files.request_switch()
        assert await room.start() == []

    play(test)
