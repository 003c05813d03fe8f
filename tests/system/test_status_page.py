"""The status page in a real browser: a broker is killed while somebody looks, and comes back; thousands of partitions; hostile names."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from kafkalite.broker.observation import live
from kafkalite.broker.observation.history import FIGURES
from kafkalite.broker.observation.http import Answer, EventStream, HttpServer, Response
from kafkalite.broker.observation.pages import FILES, JSON
from kafkalite.coordinators.placement import partition_for
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.readiness import find_controller
from kafkalite.series import Series
from kafkalite.web import PageFile
from tests.system.browser import StatusPage, browser

pytestmark = pytest.mark.system

HOSTILE = "<img src=x onerror=\"document.title='taken'\">"
OFFSETS_PARTITIONS = 3
SETTINGS = {
    "zookeeper.session.timeout.ms": "2000",
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture(scope="module")
def cluster(chrome: Chrome) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, properties=SETTINGS, http=True) as running:
        yield running


def controller_of(cluster: LocalCluster) -> int:
    return asyncio.run(find_controller(cluster.brokers.values()))


def create(cluster: LocalCluster, topic: str, replicas: list[list[int]]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    new = NewTopic(topic, len(replicas), replica_assignment=replicas)
    admin.create_topics([new], request_timeout=30)[topic].result(30)


def leave_unread(cluster: LocalCluster, groups: list[str], topic: str, records: int) -> None:
    """Write records that the groups have not read."""
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for _ in range(records):
        producer.produce(topic, b"value", partition=0)
    assert producer.flush(30) == 0
    for group in groups:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
        try:
            consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 0)], asynchronous=False)
        finally:
            consumer.close()


def test_an_election_is_seen_as_it_happens(cluster: LocalCluster, chrome: Chrome) -> None:
    seat = controller_of(cluster)
    victim, third = (broker for broker in cluster.brokers if broker != seat)
    create(cluster, "watched", [[victim, seat, third], [seat, third, victim]])
    create(cluster, "lonely", [[victim]])
    page = StatusPage(chrome, str(cluster.broker(seat).http_url))
    page.wait(lambda: page.text("#link") == "live", "live")
    page.wait(lambda: (page.tile("brokers"), page.tile("under")) == ("3 of 3", "0"), "a sound cluster")
    page.wait(lambda: len(page.data("#plots .plot[data-points]")) == 5, "plots of the last hour")
    assert page.tile("controller") == str(seat)
    assert page.partition("watched", 0)["leader"] == page.partition("lonely", 0)["leader"] == str(victim)
    assert page.partition("watched", 0)["isr"] == f"{victim},{seat},{third}"
    assert page.metric("kafkalite_under_replicated_partitions") == 0

    cluster.kill(victim)
    page.wait(lambda: page.broker(victim)["alive"] == "false", "the dead broker")
    page.wait(lambda: page.partition("watched", 0)["leader"] == str(seat), "a new leader")
    page.wait(lambda: page.partition("lonely", 0)["leader"] == "-1", "a partition without a leader")
    for number in (0, 1):
        page.wait(lambda n=number: str(victim) not in page.partition("watched", n)["isr"], "a smaller ISR")  # type: ignore[misc]
    page.wait(
        lambda: (page.tile("brokers"), page.tile("offline"), page.tile("under")) == ("2 of 3", "1", "2"), "the tiles"
    )
    assert "down" in page.text(f'[data-broker="{victim}"]') and "no leader" in page.text('[data-topic="lonely"]')
    assert page.chrome.title.startswith("⚠")
    log = "\n".join(page.texts("#changes li"))
    for told in (
        f"broker {victim} is gone",
        f"watched-0: leader {victim} → {seat}",
        f"lonely-0: leader {victim} → none",
    ):
        assert told in log
    page.wait(lambda: page.metric("kafkalite_under_replicated_partitions") == 2, "the metric of what it leads")
    assert page.metric("kafkalite_controller_offline_partitions") == 1
    assert page.metric("kafkalite_controller_brokers") == 2
    page.assert_sound()

    cluster.start_broker(victim)
    page.wait(lambda: page.broker(victim)["alive"] == "true", "the broker is back")
    page.wait(lambda: page.partition("lonely", 0)["leader"] == str(victim), "its partition is served again")
    page.wait(lambda: (page.tile("under"), page.tile("offline")) == ("0", "0"), "everything is in sync", 60)
    assert f"broker {victim} came" in "\n".join(page.texts("#changes li"))
    assert page.metric("kafkalite_controller_offline_partitions") == 0
    assert page.metric("kafkalite_isr_expands_total") >= 2, "it took the broker back into the ISRs of `watched`"
    page.assert_sound()


def groups_of_all_partitions() -> list[str]:
    """A group for each partition of the groups' offsets, so that every broker coordinates one."""
    names = (f"{HOSTILE} {number}" for number in itertools.count())
    found: dict[int, str] = {}
    while len(found) < OFFSETS_PARTITIONS:
        name = next(names)
        found.setdefault(partition_for(name, OFFSETS_PARTITIONS), name)
    return list(found.values())


def test_a_new_controller_and_a_groups_new_coordinator_are_seen(cluster: LocalCluster, chrome: Chrome) -> None:
    seat = controller_of(cluster)
    viewer, third = (broker for broker in cluster.brokers if broker != seat)
    create(cluster, "read", [[viewer, third, seat]])
    groups = groups_of_all_partitions()
    leave_unread(cluster, groups, "read", 10)
    page = StatusPage(chrome, str(cluster.broker(viewer).http_url))

    def coordinators() -> dict[str, str]:
        return {each["group"]: each["coordinator"] for each in page.data("#groups [data-group]")}

    page.wait(lambda: page.tile("controller") == str(seat), "the controller")
    page.wait(lambda: sorted(coordinators()) == sorted(groups), "groups of all coordinators")
    page.wait(lambda: {each["lag"] for each in page.data("#groups [data-group]")} == {"10"}, "their lag")
    (orphan,) = [group for group, coordinator in coordinators().items() if coordinator == str(seat)]
    assert any(orphan in text for text in page.texts("#groups [data-group]")), "a name is text, whatever is in it"
    assert page.texts("[data-topic='__consumer_offsets']") == [], "internal topics are not shown unasked"
    page.chrome.find_element(By.ID, "internal").click()
    assert len(page.texts("[data-topic='__consumer_offsets']")) == 1

    cluster.kill(seat)
    page.wait(lambda: page.tile("controller") in (str(viewer), str(third)), "another controller")
    page.wait(lambda: page.broker(seat)["alive"] == "false", "the dead broker")
    assert f"controller {seat} → {page.tile('controller')}" in "\n".join(page.texts("#changes li"))
    page.wait(lambda: coordinators()[orphan] in (str(viewer), str(third)), "another coordinator")
    page.wait(lambda: {each["lag"] for each in page.data("#groups [data-group]")} == {"10"}, "the same lag")
    assert page.chrome.title != "taken"
    page.assert_sound()


def test_a_page_whose_broker_dies_says_so_and_goes_on_with_its_successor(cluster: LocalCluster, chrome: Chrome) -> None:
    viewer = next(broker.id for broker in cluster.brokers.values() if broker.running)
    page = StatusPage(chrome, str(cluster.broker(viewer).http_url))
    page.wait(lambda: page.text("#link") == "live", "live")
    cluster.kill(viewer)
    page.wait(lambda: "connection lost" in page.text("#link"), "the loss is told")
    cluster.start_broker(viewer)
    page.wait(lambda: page.text("#link") == "live" and page.broker(viewer)["alive"] == "true", "live again")
    page.assert_sound()


@contextmanager
def served(messages: list[bytes]) -> Iterator[str]:
    """The page, with these events instead of a broker's; its address."""

    async def events() -> AsyncGenerator[bytes]:
        for message in messages:
            yield message
        await asyncio.sleep(600)

    async def stream() -> Answer:
        return EventStream(events())

    async def page_file(file: PageFile) -> Answer:
        return Response(file.read(), file.content_type)

    async def last_hour() -> Answer:
        return Response(json.dumps(Series(FIGURES, 1).to_dict()).encode(), JSON)

    loop = asyncio.new_event_loop()
    pages = {path: partial(page_file, each) for path, each in FILES.items()}
    server = HttpServer({**pages, "/events": stream, "/history.json": last_hour}, 20)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0), loop).result(20)
        yield f"http://127.0.0.1:{server.port}/"
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


def row(leader: int, isr: list[int]) -> dict[str, Any]:
    return {"leader": leader, "leader_epoch": 1, "isr": isr, "replicas": [1, 2, 3]}


def status(topics: dict[str, Any], partitions: int) -> dict[str, Any]:
    one = {"alive": True, "rack": HOSTILE, "endpoints": [HOSTILE], "leaders": 1, "replicas": 1, "in_sync": 1}
    return {
        "version": 1,
        "time_ms": 0,
        "broker": {"id": 1, "state": "running", "ready": True, "epoch": 1, "kafkalite_version": HOSTILE},
        "cluster_id": HOSTILE,
        "zookeeper": {"session": HOSTILE},
        "controller": {"id": 1, "epoch": 1},
        "traffic": {"bytes_in": 0, "bytes_out": 0, "records_in": 0, "records_out": 0},
        "brokers": {"1": one, "2": one, "3": one},
        "counts": {
            "topics": len(topics),
            "partitions": partitions,
            "under_replicated_partitions": 0,
            "offline_partitions": 0,
        },
        "topics": topics,
        "groups": [],
        "groups_omitted": 3,
    }


def test_two_thousand_partitions_are_shown_collapsed_and_stay_quick(chrome: Chrome) -> None:
    topics = {
        f"topic-{number:03}": {
            "id": str(number),
            "internal": False,
            "partitions": {str(each): row(each % 3 + 1, [1, 2, 3]) for each in range(20)},
        }
        for number in range(100)
    }
    after_death = {
        name: {**topic, "partitions": {number: row(1, [1, 2]) for number in topic["partitions"]}}
        for name, topic in topics.items()
    }
    with served(
        [live.message("status", status(topics, 2000)), live.message("change", {"time_ms": 1, "topics": after_death})]
    ) as url:
        page = StatusPage(chrome, url)
        page.wait(
            lambda: [it["health"] for it in page.data('[data-topic="topic-099"]')] == ["under-replicated"], "the change"
        )
        assert len(page.data("tbody[data-topic]")) == 100 and page.data("[data-partition]") == []
        assert len(page.texts("#changes li")) == 100, "a line for each topic, not for each partition"
        expand = "const t = performance.now(); document.getElementById('expand').click(); return performance.now() - t"
        assert page.chrome.execute_script(expand) < 5000, "ms that the page does not answer"
        assert len(page.data("[data-partition]")) == 2000
        page.chrome.find_element(By.ID, "collapse").click()
        page.chrome.find_element(By.ID, "filter").send_keys("07")
        page.wait(lambda: page.text("#shown") == "11 of 100 topics shown", "the filter")
        page.chrome.find_element(By.CSS_SELECTOR, '[data-topic="topic-007"] button').click()
        assert len(page.data("[data-partition]")) == 20
        page.assert_sound()


def test_hostile_names_are_only_text(chrome: Chrome) -> None:
    topic = {"id": "x", "internal": False, "partitions": {"0": row(1, [1, 2, 3])}}
    group = {
        "id": HOSTILE,
        "state": HOSTILE,
        "coordinator": 1,
        "members": 1,
        "lag": 3,
        "topics": {HOSTILE: {"lag": 3, "partitions": 1, "unknown": 1}},
    }
    first = status({HOSTILE: topic}, 1) | {"groups": [group]}
    gone = {"time_ms": 1, "topics": {HOSTILE: None}}
    with served([live.message("status", first), live.message("change", gone)]) as url:
        page = StatusPage(chrome, url)
        page.wait(lambda: f"{HOSTILE}: topic deleted" in "\n".join(page.texts("#changes li")), "the change")
        assert page.data("#groups [data-group]")[0]["group"] == HOSTILE
        assert HOSTILE in page.text("#cluster") and page.texts("img") == []
        assert page.chrome.title != "taken"
        page.assert_sound()


def test_the_page_can_be_used_without_seeing_it(chrome: Chrome) -> None:
    """Every control has a name, tables have headings, a topic's button tells whether it is open."""
    topic = {"id": "x", "internal": False, "partitions": {str(each): row(1, [1, 2, 3]) for each in range(50)}}
    with served([live.message("status", status({"t": topic}, 50))]) as url:
        page = StatusPage(chrome, url)
        page.wait(lambda: page.data('[data-topic="t"]') != [], "the topic")
        for control in chrome.find_elements(By.CSS_SELECTOR, "button, input, [role=log]"):
            assert control.accessible_name, control.get_attribute("outerHTML")
        button = chrome.find_element(By.CSS_SELECTOR, '[data-topic="t"] button')
        assert (button.aria_role, button.get_attribute("aria-expanded")) == ("button", "false")
        button.send_keys("\n")  # by keyboard
        assert button.get_attribute("aria-expanded") == "true" and len(page.data("[data-partition]")) == 50
        for table in chrome.find_elements(By.TAG_NAME, "table"):
            assert table.find_elements(By.CSS_SELECTOR, "thead th[scope=col]")
        assert chrome.find_element(By.ID, "link").get_attribute("role") == "status"
