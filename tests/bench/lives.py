"""Cells about the life of a broker with a thousand partitions, and about many connections with single records.

The cells of one life share a cluster, as those of `clusters` do: the first that is asked for measures all.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.local.broker_process import BrokerProcess, wait_until
from tests.bench.cells import Target, captured_produce, cell, exchange, fill, new_topic, wait_for_controller
from tests.bench.clusters import cpu_s
from tests.bench.storage import broker_of_its_own

PARTITIONS: Final = 1000
TIMEOUT_S: Final = 120.0
_measured: dict[tuple[str, ...], dict[str, float]] = {}


def led(admin: AdminClient, topic: str, partitions: int) -> bool:
    known = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    return len(known) == partitions and all(each.leader >= 0 for each in known.values())


def live(target: Target) -> dict[str, float]:
    """The seconds of a topic's creation, a clean stop and a restart."""
    with broker_of_its_own(target) as own:
        broker = own.cluster.broker(1)
        admin = AdminClient({"bootstrap.servers": own.servers})
        wait_for_controller(own.servers)
        began = time.perf_counter()
        admin.create_topics([NewTopic("many", PARTITIONS, 1)], request_timeout=60)["many"].result(TIMEOUT_S)
        wait_until(lambda: led(admin, "many", PARTITIONS), "leaders", TIMEOUT_S)
        figures = {"creation": time.perf_counter() - began}
        began = time.perf_counter()
        broker.ask_to_stop()
        wait_until(lambda: not broker.running, "the end", TIMEOUT_S)
        figures["stop"] = time.perf_counter() - began
        began = time.perf_counter()
        broker.start()
        broker.wait_started(TIMEOUT_S)
        wait_until(lambda: led(admin, "many", PARTITIONS), "leaders", TIMEOUT_S)
        figures["restart"] = time.perf_counter() - began
        return figures


def of_life(target: Target, what: str) -> float:
    if what not in _measured.get(target.command, {}):
        _measured[target.command] = live(target)
    return _measured[target.command].pop(what)


@cell(f"creation of {PARTITIONS} partitions, one broker", "s")
def creation(target: Target) -> float:
    return of_life(target, "creation")


@cell(f"clean stop with {PARTITIONS} partitions", "s")
def clean_stop(target: Target) -> float:
    return of_life(target, "stop")


@cell(f"restart with {PARTITIONS} partitions", "s")
def restart(target: Target) -> float:
    return of_life(target, "restart")


# Single records on many connections


def hammer(target: Target, connections: int) -> tuple[float, float]:
    """(requests a second, µs of the broker's processor time for each) of connections that send one record, wait, and send the next.

    The client is one Python process: beyond some 30,000 requests a second it is what is measured, but for the processor time.
    """
    topic = new_topic(target)
    fill(target, topic, 100, seconds=0)
    request = captured_produce(topic, bytes(100))
    return keep_asking([(target.cluster.broker(1), request)] * connections, target.seconds)


def keep_asking(asked: Sequence[tuple[BrokerProcess, bytes]], seconds: float) -> tuple[float, float]:
    """(requests a second, µs of all these brokers' processor time for each), a connection for each row, with its broker and request.

    All answers must be of one size.
    """
    selector = selectors.DefaultSelector()
    answer_bytes = 0
    for broker, request in asked:
        peer = socket.create_connection((broker.host, broker.port), TIMEOUT_S)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(peer, selectors.EVENT_READ, request)
        answer_bytes = 4 + len(exchange(peer, request))
    for key in selector.get_map().values():
        key.fileobj.sendall(key.data)  # type: ignore[union-attr]
    brokers = {broker.id: broker for broker, _ in asked}.values()
    answers = _answers(selector, answer_bytes, seconds / 4)  # warms up
    before_s, began = sum(map(cpu_s, brokers)), time.perf_counter()
    answers = _answers(selector, answer_bytes, seconds)
    took_s, spent_s = time.perf_counter() - began, sum(map(cpu_s, brokers)) - before_s
    for key in selector.get_map().values():
        key.fileobj.close()  # type: ignore[union-attr]
    return answers / took_s, spent_s / answers * 1e6


def _answers(selector: selectors.BaseSelector, answer_bytes: int, seconds: float) -> int:
    """How many came in that time; whoever was answered sends again."""
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        for key, _ in selector.select(1.0):
            peer = key.fileobj
            if len(peer.recv(65_536)) != answer_bytes:  # type: ignore[union-attr]
                raise ConnectionError("an answer came in pieces, or none")
            peer.sendall(key.data)  # type: ignore[union-attr]
            count += 1
    return count


@cell("single records on 20 connections", "requests/s", higher_is_better=True)
def twenty_connections(target: Target) -> float:
    return hammer(target, 20)[0]


@cell("single records on 200 connections", "requests/s", higher_is_better=True)
def two_hundred_connections(target: Target) -> float:
    return hammer(target, 200)[0]


@cell("processor time for a single record on 200 connections", "µs")
def cost_of_two_hundred(target: Target) -> float:
    return hammer(target, 200)[1]
