"""A page never shows for longer than three seconds what is not true any more: brokers killed or slow, ZooKeeper lost. In virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from kafkalite.client import BrokerNode, ClusterDescription, PartitionView
from kafkalite.client.admin.options import AdminOptions
from kafkalite.console.access import Access
from kafkalite.console.app import Console, Ports
from kafkalite.console.membership import UNTOLD_CONTROLLER
from kafkalite.console.state_sources import BrokerConnections
from kafkalite.console.state_survey import IDLE_AFTER_S
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation import virtual_time
from kafkalite.testing.simulation.virtual_time import VirtualClock
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import HANG, FakeCluster
from tests.unit.console.asgi_client import ask
from tests.unit.console.fake_admin import FakeAdmin
from tests.unit.console.fake_brokers import FakeBrokers
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.store import Create, Delete, Write
from zk.znodes.brokers import BrokerRegistration, RegisteredEndpoint
from zk.znodes.controller import ControllerSeat
from zk.znodes.topics import PartitionState

TRUTH_S = 3.0
POLL_S = 1.0
"""Pause of a page between two questions."""


class Scene:
    """A console of brokers 1 to 3 that runs, and a page that asks it every second; topic t has partitions led by brokers 1 and 2."""

    def __init__(self, server: MemoryZooKeeper | None, store: MemoryStore | None) -> None:
        self.admin = FakeAdmin({"t": 2})
        self.admin.alive = [1, 2, 3]
        self.admin.topics["t"] = [(1, 0, (1, 2)), (2, 0, (1, 2))]
        self.brokers = FakeBrokers(self.admin)
        self.zookeeper, self.store = server, store
        ports = Ports(self.admin, self.admin, self.brokers, None, None, store, VirtualClock())  # type: ignore[arg-type]
        self.console = Console(ports, Access(), "test")

    async def get(self, target: str) -> Any:
        answer = await ask(self.console.app, target)
        assert answer.status == 200, answer.body
        return answer.json

    async def page_shows(self, is_true: Callable[[Any], bool], target: str = "/api/overview") -> Any:
        """Ask as a page does until it shows what is true; AssertionError when that is later than three seconds after the call."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        await asyncio.sleep(POLL_S * 0.9)  # the page has asked just before
        while not is_true(found := await self.get(target)):
            assert loop.time() - begun_s < TRUTH_S, found
            await asyncio.sleep(POLL_S)
        assert loop.time() - begun_s < TRUTH_S
        return found

    def end_registration(self, broker: int) -> None:
        assert self.zookeeper is not None
        self.zookeeper.administer([Delete(paths.broker(broker))])

    def register(self, broker: int) -> None:
        assert self.zookeeper is not None
        endpoint = RegisteredEndpoint("PLAINTEXT", "h", 9000 + broker)
        self.zookeeper.administer([Create(paths.broker(broker), BrokerRegistration((endpoint,)).encode())])

    def write_state(self, partition: int, leader: int, epoch: int, isr: tuple[int, ...]) -> None:
        """Write a partition's state to ZooKeeper, as a controller does, and let the brokers know it."""
        assert self.zookeeper is not None
        data = PartitionState(leader, epoch, isr, 1).encode()
        self.zookeeper.administer([Write(paths.partition_state("t", partition), data)])
        self.admin.topics["t"][partition] = (leader, epoch, isr)


@asynccontextmanager
async def a_scene(*, with_zookeeper: bool) -> AsyncIterator[Scene]:
    server, store = None, None
    if with_zookeeper:
        server = MemoryZooKeeper()
        store = MemoryStore(server)
        await store.start(5)
        for path in (paths.BROKER_IDS, paths.partition_state("t", 0), paths.partition_state("t", 1)):
            await store.create(path, b"", parents=True)
        seat = Create(paths.CONTROLLER, ControllerSeat(1, 0).encode())
        server.administer([seat])
    scene = Scene(server, store)
    for broker in scene.admin.alive if with_zookeeper else ():
        scene.register(broker)
    for number, (leader, epoch, isr) in enumerate(scene.admin.topics["t"] if with_zookeeper else ()):
        scene.write_state(number, leader, epoch, isr)
    async with scene.console.running():
        yield scene
    if store is not None:
        await store.close()


def run(scenario: Callable[[Scene], Awaitable[None]], *, with_zookeeper: bool = False) -> None:
    async def all_of_it() -> None:
        async with a_scene(with_zookeeper=with_zookeeper) as scene:
            found = await scene.page_shows(lambda found: len(found["brokers"]) == 3)
            assert states(found) == {1: "up", 2: "up", 3: "up"} and found["controller_id"] == 1
            assert all(each["healthy"] for each in found["health"]) and not late(found)
            await scenario(scene)

    virtual_time.run(all_of_it())


def states(found: Any) -> dict[int, str]:
    return {each["id"]: each["state"] for each in found["brokers"]}


def late(found: Any) -> set[str]:
    return {each["name"] for each in found["as_of"] if each["is_late"]}


def unhealthy(found: Any) -> set[str]:
    return {each["check"] for each in found["health"] if not each["healthy"]}


def texts(found: Any) -> list[str]:
    return [each["text"] for each in found["changes"]]


def test_a_killed_broker_is_not_up_and_its_partitions_have_their_new_leader() -> None:
    """The survey waited for the dead broker, too: for 18 to 35 s the page said 3 of 3."""

    async def scenario(scene: Scene) -> None:
        scene.brokers.killed.add(1)
        await scene.page_shows(lambda found: states(found)[1] != "up")
        scene.admin.alive = [2, 3]
        scene.admin.topics["t"] = [(2, 1, (2,)), (2, 1, (2,))]
        found = await scene.page_shows(lambda found: states(found) == {1: "down", 2: "up", 3: "up"})
        assert found["controller_id"] == 2
        found = await scene.page_shows(lambda found: found["counts"]["under_replicated_partitions"] == 2)
        assert {"brokers", "under-replicated partitions"} <= unhealthy(found) and not late(found)
        assert {
            "broker gone 1",
            "controller 2 (was 1)",
            "election t-0 leader 2 (was 1), ISR 2 (was 1,2), epoch 1",
            "isr t-1 leader 2, ISR 2 (was 1,2), epoch 1",
        } == set(texts(found))
        scene.brokers.killed.clear()
        scene.admin.alive = [1, 2, 3]
        await scene.page_shows(lambda found: states(found)[1] == "up")

    run(scenario)


def test_a_broker_that_is_being_asked_is_up_and_not_up_since_then() -> None:
    async def scenario(scene: Scene) -> None:
        found = await scene.page_shows(lambda found: states(found)[1] == "up")
        contact = scene.console.state.contacts[1]
        contact.asked_ms = contact.told_ms
        assert scene.console.state.broker_state(1) == ("up", None, None)
        assert [each["silent_since_ms"] for each in found["brokers"]] == [None] * len(found["brokers"])

    run(scenario, with_zookeeper=True)


def test_a_killed_broker_that_is_still_registered_does_not_answer() -> None:
    """ZooKeeper has it until its session ends: it is neither up nor down, and nor are its partitions well."""

    async def scenario(scene: Scene) -> None:
        scene.brokers.killed.add(1)
        found = await scene.page_shows(lambda found: states(found)[1] == "silent")
        (row,) = [each for each in found["brokers"] if each["id"] == 1]
        assert row["alive"] and "Connection refused" in row["problem"] and row["silent_since_ms"]
        assert {"brokers answer", "leaders answer"} <= unhealthy(found) and not late(found)
        topic = await scene.get("/api/topics/t")
        assert [each["is_silent"] for each in topic["partition_list"]] == [True, False]
        assert topic["partition_list"][0]["end_offset"] is None and topic["partition_list"][1]["end_offset"] == 100
        assert "broker 1 does not answer" in topic["offsets_problem"]
        scene.end_registration(1)
        found = await scene.page_shows(lambda found: states(found)[1] == "down")
        assert texts(found) == ["broker gone 1"]
        assert {"brokers", "leaders answer"} <= unhealthy(found), "its partitions have no other leader yet"

    run(scenario, with_zookeeper=True)


def test_a_broker_that_hangs_holds_up_nothing() -> None:
    """It is the controller, and was asked first."""

    async def scenario(scene: Scene) -> None:
        scene.brokers.delays_s[1] = 10_000
        scene.admin.topics["t"] = [(1, 0, (1,)), (2, 0, (1, 2))]
        found = await scene.page_shows(
            lambda found: states(found)[1] == "silent" and found["counts"]["under_replicated_partitions"] == 1
        )
        assert not late(found) and states(found) == {1: "silent", 2: "up", 3: "up"}
        assert (await scene.get("/api/console"))["unanswering"] == ["broker 1 does not answer"]
        scene.admin.topics["t"] = [(1, 0, (1, 2)), (2, 0, (1, 2))]
        await scene.page_shows(lambda found: not found["counts"]["under_replicated_partitions"])
        assert (await scene.get("/api/topics?unwell=1"))["count"] == 0
        scene.brokers.delays_s[1] = 1.5
        await asyncio.sleep(15)
        await scene.page_shows(lambda found: states(found)[1] == "slow")
        assert (await scene.get("/api/console"))["unanswering"] == ["broker 1 is slow"]
        del scene.brokers.delays_s[1]
        await scene.page_shows(lambda found: states(found)[1] == "up")

    run(scenario)


def test_a_wait_that_ends_without_an_answer_is_told_in_words() -> None:
    async def scenario(scene: Scene) -> None:
        async def hang(_: object) -> list[Any]:
            await asyncio.sleep(10_000)
            return []

        scene.admin.list_transactions = hang  # type: ignore[attr-defined]
        answer = await ask(scene.console.app, "/api/transactions")
        assert (answer.status, answer.json) == (504, {"error": "the cluster did not answer in time"})

    run(scenario)


def test_a_broker_that_is_slow_to_tell_the_topics_is_asked_after_the_others() -> None:
    async def scenario(scene: Scene) -> None:
        scene.brokers.topic_delays_s[1] = 10_000
        scene.admin.topics["t"] = [(2, 1, (1, 2)), (2, 0, (1, 2))]
        await scene.page_shows(lambda found: "election t-0 leader 2 (was 1), ISR 1,2, epoch 1" in texts(found))
        before = scene.brokers.asked_topics[1]
        await asyncio.sleep(8)
        assert scene.brokers.asked_topics[1] - before <= 1

    run(scenario)


def test_a_broker_whose_answers_cannot_be_read_is_not_up() -> None:
    async def scenario(scene: Scene) -> None:
        scene.brokers.broken.add(3)
        with virtual_time.expected_errors() as seen:
            found = await scene.page_shows(lambda found: states(found)[3] == "silent")
        assert "nobody foresaw" in found["brokers"][2]["problem"] and seen.contexts
        scene.brokers.broken.clear()
        await scene.page_shows(lambda found: states(found)[3] == "up")

    run(scenario)


def test_without_zookeeper_most_brokers_decide() -> None:
    """One that was paused goes on telling what was true before, and that it is the controller."""

    async def scenario(scene: Scene) -> None:
        nodes = tuple(BrokerNode(each, "h", 9000 + each) for each in (1, 2, 3))
        scene.brokers.told[1] = ClusterDescription("the-cluster", 1, nodes)
        scene.admin.alive = [2, 3]
        found = await scene.page_shows(lambda found: states(found) == {1: "down", 2: "up", 3: "up"})
        assert found["controller_id"] == 2 and found["source"] in ("broker 2", "broker 3")

    run(scenario)


def test_a_lost_zookeeper_is_told_and_the_brokers_go_on_telling() -> None:
    async def scenario(scene: Scene) -> None:
        assert scene.zookeeper is not None
        assert (await scene.get("/api/overview"))["source"] == "ZooKeeper"
        scene.zookeeper.lose_quorum()
        found = await scene.page_shows(lambda found: "ZooKeeper answers" in unhealthy(found))
        for _ in range(40):
            assert late(await scene.get("/api/overview")) <= {"ZooKeeper"}, "the brokers take over before it is late"
            await asyncio.sleep(0.1)
        assert late(await scene.get("/api/overview")) == {"ZooKeeper"}
        scene.brokers.killed.add(3)
        found = await scene.page_shows(lambda found: states(found)[3] == "silent")
        await asyncio.sleep(5)
        found = await scene.get("/api/overview")
        assert late(found) == {"ZooKeeper"} and found["source"].startswith("broker")
        scene.zookeeper.regain_quorum()
        found = await scene.page_shows(lambda found: found["source"] == "ZooKeeper" and not late(found))
        assert unhealthy(found) == {"brokers answer"}

    run(scenario, with_zookeeper=True)


def test_what_nobody_can_tell_any_more_becomes_late() -> None:
    async def scenario(scene: Scene) -> None:
        scene.brokers.killed |= {1, 2, 3}
        found = await scene.page_shows(lambda found: set(states(found).values()) == {"silent"})
        await asyncio.sleep(TRUTH_S)
        found = await scene.get("/api/overview")
        assert {"brokers and controller", "leaders and in-sync replicas"} <= late(found)
        problems = {each["name"]: each["problem"] for each in found["as_of"]}
        assert "Connection refused" in problems["brokers and controller"]
        age_ms = {each["name"]: each["age_ms"] for each in found["as_of"]}["brokers and controller"]
        assert 3_000 < age_ms < 8_000, "as of the last answer"
        for target in ("/api/topics", "/api/groups", "/api/timeline", "/api/topics/t"):
            assert "brokers and controller" in late(await scene.get(target)), target

    run(scenario)


def test_changes_have_the_times_and_zxids_of_zookeeper() -> None:
    async def scenario(scene: Scene) -> None:
        assert scene.store is not None
        await asyncio.sleep(0.3)
        scene.write_state(1, 2, 1, (2,))
        _, stat = await scene.store.read(paths.partition_state("t", 1))
        found = await scene.page_shows(lambda found: bool(found["changes"]))
        (row,) = found["changes"]
        assert (row["event"], row["time_ms"], row["zxid"]) == ("isr", stat.mtime_ms, f"0x{stat.mzxid:x}")
        scene.end_registration(3)
        scene.register(3)
        _, stat = await scene.store.read(paths.broker(3))
        found = await scene.page_shows(lambda found: len(found["changes"]) == 3)
        came, gone = sorted(found["changes"], key=lambda row: str(row["event"]))[:2]
        assert (came["text"], came["time_ms"], came["zxid"]) == ("broker came 3", stat.ctime_ms, f"0x{stat.czxid:x}")
        assert (gone["text"], gone["zxid"]) == ("broker gone 3", None), "nothing is left of it in ZooKeeper"
        assert (await scene.get("/api/timeline?known=3"))["rows"] is None

    run(scenario, with_zookeeper=True)


def test_the_list_of_topics_and_a_topic_agree() -> None:
    async def scenario(scene: Scene) -> None:
        scene.admin.topics["t"] = [(1, 1, (1,)), (2, 1, (2,))]
        for _ in range(30):
            (row,) = (await scene.get("/api/topics"))["rows"]
            topic = await scene.get("/api/topics/t?without_settings=1")
            assert row["under_replicated"] == sum(each["under_replicated"] for each in topic["partition_list"])
            await asyncio.sleep(0.1)
        assert row["under_replicated"] == 2

    run(scenario)


def test_a_broker_that_lags_behind_does_not_turn_back_a_leader() -> None:
    async def scenario(scene: Scene) -> None:
        scene.admin.topics["t"] = [(2, 5, (1, 2)), (2, 0, (1, 2))]
        await scene.page_shows(lambda found: len(found["changes"]) == 1)
        scene.admin.topics["t"] = [(1, 4, (1, 2)), (2, 0, (1, 2))]
        await asyncio.sleep(5)
        (leader, _) = [each["leader"] for each in (await scene.get("/api/topics/t"))["partition_list"]]
        assert leader == 2 and len((await scene.get("/api/timeline"))["rows"]) == 1

    run(scenario)


def test_while_nobody_looks_less_is_asked_and_the_first_look_is_fresh() -> None:
    async def scenario(scene: Scene) -> None:
        await asyncio.sleep(IDLE_AFTER_S + 10)
        before = scene.brokers.asked_topics.total()
        await asyncio.sleep(60)
        assert 10 <= scene.brokers.asked_topics.total() - before <= 14
        scene.brokers.killed.add(3)
        found = await scene.get("/api/overview")
        assert not late(found) and states(found)[3] == "silent"

    run(scenario)


def test_while_nobody_looks_no_answer_that_is_seldom_asked_for_counts_as_lost() -> None:
    """ZooKeeper and brokers are asked at other moments: answers would have come of one broker alone, and of another source each time."""

    async def scenario(scene: Scene) -> None:
        nodes = tuple(BrokerNode(each, "h", 9000 + each) for each in (1, 3))
        scene.brokers.told[3] = ClusterDescription("the-cluster", 3, nodes)
        await asyncio.sleep(IDLE_AFTER_S * 5)
        assert scene.console.state.members is not None and scene.console.state.members.source == "ZooKeeper"
        found = await scene.get("/api/overview")
        assert not late(found) and found["source"] == "ZooKeeper" and not found["changes"]
        assert None not in found["history"]["values"]["under_replicated"][1:]

    run(scenario, with_zookeeper=True)


def test_a_topic_that_was_made_again_is_another_one() -> None:
    async def scenario(scene: Scene) -> None:
        scene.admin.topic_ids["t"] = "another"
        found = await scene.page_shows(lambda found: len(found["changes"]) == 4)
        assert sorted(row["event"] for row in found["changes"]) == ["created", "created", "deleted", "deleted"]

    run(scenario)


def test_an_action_ends_when_the_lists_show_what_it_did() -> None:
    async def scenario(scene: Scene) -> None:
        for action, body in (
            ("create-topic", {"topic": "new", "partitions": 2}),
            ("delete-topic", {"topic": "new", "confirm": "new"}),
        ):
            scene.brokers.topic_delays_s[1] = 0.4
            scene.admin.ends |= {TopicPartition("new", number): 0 for number in range(2)}
            answer = await ask(scene.console.app, f"/api/actions/{action}", {**body, "execute": True})
            assert answer.status == 200, answer.body
            is_there = "new" in [row["name"] for row in (await scene.get("/api/topics"))["rows"]]
            assert is_there == (action == "create-topic")

    run(scenario)


def test_a_zookeeper_that_was_away_from_the_beginning_is_told() -> None:
    async def scenario() -> None:
        admin = FakeAdmin({"t": 1})
        brokers, problem = FakeBrokers(admin), "ZooKeeper at zk:2181 did not answer"
        ports = Ports(admin, admin, brokers, None, None, None, VirtualClock(), zookeeper_problem=problem)  # type: ignore[arg-type]
        console = Console(ports, Access(), "test")
        await console.state.look()
        found = (await ask(console.app, "/api/overview")).json
        assert unhealthy(found) == {"ZooKeeper answers"} and "ZooKeeper" in late(found)

    virtual_time.run(scenario())


def test_connections_of_their_own_ask_brokers_once() -> None:
    """A request that nobody waits for any more ends its connection, so that answers do not pile up behind it."""
    cluster = FakeCluster({"t": 2})

    async def scenario() -> None:
        brokers = BrokerConnections(AdminOptions(bootstrap_servers="fake:9001", opener=cluster.open))
        told = await brokers.ask_topics("fake", 9001)
        assert told.topics is not None and sorted(told.brokers) == [1, 2] and told.controller_id == 1
        partition = told.topics["t"].partitions[0]
        assert isinstance(partition, PartitionView) and TopicPartition("t", 0) in cluster.leaders
        assert (await brokers.ask_members("fake", 9002)).topics is None
        members, topics = cluster.requests_of(ApiKey.METADATA)[::-1][:2]
        assert members.topics == [] and topics.topics is None and not members.allow_auto_topic_creation
        cluster.script[ApiKey.METADATA].append(HANG)
        asking = asyncio.create_task(brokers.ask_topics("fake", 9001))
        await virtual_time.settle()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert cluster.connections[0].closed and not cluster.connections[1].closed
        assert (await brokers.ask_topics("fake", 9001)).topics is not None
        await brokers.close()
        assert all(each.closed for each in cluster.connections)

    virtual_time.run(scenario())


def test_the_controller_of_a_cluster_with_kraft_is_not_told() -> None:
    """Its brokers name any of themselves, another one each time; each would be a change of controllers."""
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        brokers = BrokerConnections(AdminOptions(bootstrap_servers="fake:9001", opener=cluster.open))
        await brokers.ask_members("fake", 9001)
        (connection,) = cluster.connections

        def version_of(api_key: int, *, with_dropped: bool = False) -> int:
            if api_key == ApiKey.UPDATE_METADATA:
                raise ValueError("it does not speak UpdateMetadata")
            return 0 if api_key == ApiKey.UNREGISTER_BROKER else 12

        connection.version_of = version_of  # type: ignore[method-assign]
        assert (await brokers.ask_members("fake", 9001)).controller_id == UNTOLD_CONTROLLER
        await brokers.close()

    virtual_time.run(scenario())
