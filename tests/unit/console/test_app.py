"""What the console answers, of a cluster in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from kafkalite.client import GroupMember, PartitionReassignment
from kafkalite.console.access import Access
from kafkalite.console.app import FILES, Console, Ports
from kafkalite.console.survey import POINTS, Watched
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.clocks import HandClock
from tests.unit.console.asgi_client import Answer, ask
from tests.unit.console.fake_admin import SECRET, FakeAdmin
from tests.unit.console.fake_brokers import FakeBrokers
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper

HOSTILE = "<script>alert(1)</script>"


class Scene:
    """A console with its cluster; `look` is a round of its survey, five seconds after the one before."""

    def __init__(self, admin: FakeAdmin, store: MemoryStore | None = None, *, read_only: bool = False) -> None:
        self.admin = admin
        self._clock = HandClock(1_000_000)
        self.brokers = FakeBrokers(admin)
        ports = Ports(admin, admin, self.brokers, None, admin.open_producer, store, self._clock)  # type: ignore[arg-type]
        self.console = Console(ports, Access(read_only=read_only), "staging (h:9092)")

    async def look(self) -> None:
        self._clock.ms += 5_000
        await self.console.state.look()
        await self.console.survey.run_round()

    async def ask(self, target: str, body: Any = None) -> Answer:
        return await ask(self.console.app, target, body)

    async def get(self, target: str) -> Any:
        answer = await self.ask(target)
        assert answer.status == 200, answer.body
        return answer.json


def run(scenario: Callable[[Scene], Awaitable[None]], admin: FakeAdmin | None = None, **options: Any) -> None:
    async def all_of_it() -> None:
        scene = Scene(admin or FakeAdmin({"t": 2, "__internal": 1}), **options)
        await scene.look()
        await scenario(scene)

    virtual_time.run(all_of_it())


def test_topics_are_filtered_sorted_and_paged_here() -> None:
    admin = FakeAdmin({**{f"topic-{number:03}": 1 for number in range(120)}, "wide": 7, "__internal": 1})
    admin.topics["topic-050"] = [(-1, 3, (2,))]

    async def scenario(scene: Scene) -> None:
        first = await scene.get("/api/topics")
        assert (len(first["rows"]), first["count"], first["all"]) == (50, 121, 122)
        last = await scene.get("/api/topics?page=2")
        assert [row["name"] for row in last["rows"]][-1] == "wide"
        assert [row["name"] for row in (await scene.get("/api/topics?filter=PIC-01&rows=3"))["rows"]] == [
            "topic-010",
            "topic-011",
            "topic-012",
        ]
        assert (await scene.get("/api/topics?sort=partitions"))["rows"][0]["name"] == "wide"
        (unwell,) = (await scene.get("/api/topics?unwell=1"))["rows"]
        assert (unwell["name"], unwell["offline"], unwell["under_replicated"]) == ("topic-050", 1, 1)
        assert (await scene.get("/api/topics?internal=1"))["count"] == 122
        assert [row["name"] for row in (await scene.get("/api/topics?name=topic-01"))["rows"]] == []
        assert [row["name"] for row in (await scene.get("/api/topics?name=topic-010"))["rows"]] == ["topic-010"]
        assert (await scene.ask("/api/topics?sort=nonsense")).status == 400
        assert (await scene.ask("/api/topics?page=-1")).status == 400

    run(scenario, admin)


def test_rates_and_the_timeline_come_of_two_looks() -> None:
    async def scenario(scene: Scene) -> None:
        admin = scene.admin
        admin.ends[TopicPartition("t", 0)] += 50
        admin.topics["t"] = [(2, 1, (1, 2)), (1, 0, (1,))]
        admin.alive = [2, 3]
        await scene.look()
        overview = await scene.get("/api/overview")
        assert overview["records_per_s"] == 10.0 and overview["controller_id"] == 2
        assert overview["history"]["values"]["records_per_s"] == [None, 10.0]
        assert [each["id"] for each in overview["brokers"] if not each["alive"]] == [1]
        assert not all(each["healthy"] for each in overview["health"])
        told = [row["text"] for row in (await scene.get("/api/timeline"))["rows"]]
        assert told == [
            "isr t-1 leader 1, ISR 1 (was 1,2), epoch 0",
            "election t-0 leader 2 (was 1), ISR 1,2, epoch 1",
            "controller 2 (was 1)",
            "broker came 3",
            "broker gone 1",
        ]
        assert len((await scene.get("/api/timeline?event=election"))["rows"]) == 1
        admin.is_away = True
        await scene.look()
        overview = await scene.get("/api/overview")
        assert "does not answer" in overview["problem"] and overview["counts"]["topics"] == 2, "what was known stays"
        late = {each["name"]: each["problem"] for each in overview["as_of"] if each["is_late"]}
        assert "Connection refused" in late["brokers and controller"] and "leaders and in-sync replicas" in late
        assert overview["history"]["values"]["records_per_s"][-1] is None

    run(scenario)


def test_many_changes_at_once_are_counted_together() -> None:
    async def scenario(scene: Scene) -> None:
        scene.admin.topics |= {"wide": [(1, 0, (1, 2))] * 50, "t": [(2, 1, (1, 2))] * 2}
        scene.admin.ends |= {TopicPartition("wide", number): 0 for number in range(50)}
        await scene.look()
        told = [row["text"] for row in (await scene.get("/api/timeline"))["rows"]]
        assert told == [
            "created wide-0 leader 1, ISR 1,2, epoch 0, and 49 more",
            "election t-1 leader 2 (was 1), ISR 1,2, epoch 1",
            "election t-0 leader 2 (was 1), ISR 1,2, epoch 1",
        ]
        names = [f"topic-{number:03}" for number in range(300)]
        scene.admin.topics |= {name: [(1, 0, (1, 2))] for name in names}
        scene.admin.ends |= {TopicPartition(name, 0): 0 for name in names}
        await scene.look()
        rows = (await scene.get("/api/timeline"))["rows"]
        assert len(rows) == 3 + 201 and rows[0]["more"] == 99

    run(scenario)


def test_who_may_not_see_settings_sees_the_rest() -> None:
    admin = FakeAdmin({"t": 2})
    admin.refuses_configs = True
    admin.committed = {"g": {TopicPartition("t", 0): 40}}

    async def scenario(scene: Scene) -> None:
        found = await scene.get("/api/topics/t")
        assert found["settings"] == [] and "not authorized" in found["settings_problem"] and found["bytes"] == 3000
        assert (await scene.get("/api/groups"))["rows"][0]["lag"] == 60
        await scene.look()
        overview = await scene.get("/api/overview")
        assert overview["history"]["values"]["records_per_s"] == [None, 0.0]
        assert "not authorized" in overview["problem"], "also after a round that asks for less"
        admin.refuses_configs = False
        await scene.look()
        await scene.look()
        assert (await scene.get("/api/overview"))["problem"] is None

    run(scenario, admin)


def test_a_topic_has_partitions_sizes_and_settings_without_secrets() -> None:
    async def scenario(scene: Scene) -> None:
        answer = await scene.ask("/api/topics/t")
        found = answer.json
        assert found["partition_list"][1] | {"offline_replicas": []} == {
            "partition": 1,
            "leader": 1,
            "leader_epoch": 0,
            "replicas": [1, 2],
            "isr": [1, 2],
            "offline_replicas": [],
            "under_replicated": False,
            "is_silent": False,
            "start_offset": 10,
            "end_offset": 100,
            "bytes": 1000,
            "bytes_by_broker": {"1": 1000, "2": 500},
        }
        assert [each["name"] for each in found["settings"]] == ["retention.ms", "ssl.key", "a.default"], (
            "what is set comes first"
        )
        assert SECRET.encode() not in answer.body
        assert found["bytes"] == 3000 and found["history"]["values"]["bytes"] == [3000.0]
        assert (await scene.ask("/api/topics/absent")).status == 404
        assert SECRET.encode() not in (await scene.ask("/api/brokers/1")).body
        assert (await scene.ask("/api/brokers/x")).status == 400

    run(scenario)


def test_offsets_of_a_group_are_moved_after_they_were_shown() -> None:
    place = TopicPartition("t", 0)
    admin = FakeAdmin({"t": 2})
    admin.committed = {HOSTILE: {place: 40}}

    async def scenario(scene: Scene) -> None:
        (row,) = (await scene.get("/api/groups"))["rows"]
        assert (row["group"], row["lag"]) == (HOSTILE, 60)
        found = await scene.get(f"/api/group?id={quote(HOSTILE)}")
        assert (found["lag"], found["history"]["values"]["lag"]) == (60, [60.0])
        asked = {"id": HOSTILE, "to": "shift", "at": -15}
        shown = await scene.ask("/api/group/reset", asked)
        assert [row["new_offset"] for row in shown.json["rows"]] == [25] and admin.committed[HOSTILE][place] == 40
        done = await scene.ask("/api/group/reset", {**asked, "execute": True})
        assert done.json["is_done"] and admin.committed[HOSTILE][place] == 25
        for to, at, offset in (("earliest", None, 10), ("latest", None, 100), ("time", 5, 50), ("offset", 7, 10)):
            planned = await scene.ask("/api/group/reset", {"id": HOSTILE, "to": to, "topic": "t", "at": at or 0})
            assert {row["new_offset"] for row in planned.json["rows"]} == {offset}
        assert (await scene.ask("/api/group/reset", {"id": HOSTILE, "to": "time"})).status == 400
        assert (await scene.ask("/api/group/reset", {"id": "absent", "to": "latest"})).status == 409
        assert (await scene.ask("/api/group?id=absent")).status == 400
        admin.members[HOSTILE] = (GroupMember("m", None, "c", "/10.0.0.1"),)
        refused = await scene.ask("/api/group/reset", {**asked, "execute": True})
        assert refused.status == 409 and "stop its members first" in refused.json["error"]

    run(scenario, admin)


def test_records_are_written_as_they_were_copied() -> None:
    async def scenario(scene: Scene) -> None:
        record = {"key": None, "value": {"base64": "/wA="}, "headers": [["h", "1"], ["h", None]], "partition": 1}
        answer = await scene.ask("/api/topics/t/produce", {"record": record})
        assert answer.json == {"topic": "t", "partition": 0, "offset": 7}
        (written,) = scene.admin.written
        assert written[0] == "t" and written[1]["value"] == b"\xff\x00" and written[1]["key"] is None
        assert written[1]["headers"] == [("h", b"1"), ("h", None)] and written[1]["partition"] == 1
        assert (await scene.ask("/api/topics/t/produce", {"record": []})).status == 400
        assert (await scene.ask("/api/topics/t/produce", [])).status == 400

    run(scenario)


def test_a_console_that_only_reads_changes_nothing() -> None:
    async def scenario(scene: Scene) -> None:
        assert (await scene.get("/api/console"))["read_only"]
        for target in ("/api/topics/t/produce", "/api/group/reset"):
            assert (await scene.ask(target, {})).status == 403
        assert not scene.admin.written

    run(scenario, read_only=True)


def test_moves_are_shown_as_they_go_on_and_what_cannot_be_had_is_said() -> None:
    async def scenario(scene: Scene) -> None:
        place = TopicPartition("t", 0)
        scene.admin.moves = {place: PartitionReassignment(place, (1, 2), (2,), (1,))}
        (row,) = (await scene.get("/api/reassignments"))["rows"]
        assert (row["arrived_bytes"], row["bytes"], row["share"]) == ({"2": 500}, 1000, 0.5)
        permissions = await scene.get("/api/permissions")
        assert "No Authorizer" in permissions["problems"]["acls"] and permissions["users"] == []
        assert "no ledger" in (await scene.get("/api/nights"))["problem"]

    run(scenario)


def test_the_tree_of_zookeeper_shows_no_secrets() -> None:
    async def scenario(scene: Scene) -> None:
        store = scene.console._ports.store
        assert store is not None
        for path in (paths.CONFIG, paths.CONFIG_USERS):
            await store.create(path, b"")
        await store.create(paths.user_config("ann"), SECRET.encode())
        answer = await scene.ask(f"/api/znode?path={paths.user_config('ann')}")
        assert answer.json["data"]["kind"] == "hidden" and SECRET.encode() not in answer.body
        root = await scene.get("/api/znode?path=/")
        assert {
            "name": "config",
            "path": "/config",
            "meaning": "Settings that were changed while the cluster runs.",
        } in root["children"]
        assert (await scene.ask("/api/znode?path=/absent")).status == 404
        assert (await scene.ask("/api/znode?path=nonsense")).status == 400

    async def all_of_it() -> None:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(5)
        scene = Scene(FakeAdmin({"t": 1}), store)
        await scenario(scene)
        await store.close()

    virtual_time.run(all_of_it())


def test_every_file_of_the_page_is_served_and_no_other() -> None:
    async def scenario(scene: Scene) -> None:
        for path, file in FILES.items():
            answer = await scene.ask(path)
            assert (
                answer.status == 200
                and answer.body == file.read()
                and answer.headers["content-type"] == file.content_type
            )
        for path in ("/../setup.cfg", "/page/app.js", "/api", "/api/unknown"):
            assert (await scene.ask(path)).status == 404

    asyncio.run(scenario(Scene(FakeAdmin({"t": 1}))))


def test_series_are_kept_of_those_that_were_asked_for_last() -> None:
    watched = Watched(("lag",), 2)
    watched.fill(["a", "b", "c"])
    assert watched.names() == ["a", "b"]
    watched.append(1, {"a": {"lag": 5}})
    assert watched.of("c").size_bytes == 2 * 8 * POINTS
    assert watched.names() == ["b", "c"], "the one that nobody asked for goes"
    assert watched.of("b").to_dict() == {"times": [1], "values": {"lag": [None]}}
