"""Cells about the life of a broker with a thousand partitions, and about many connections with single records.

The cells of one life share a cluster, as those of `clusters` do: the first that is asked for measures all.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from kafkalite.local.broker_process import wait_until
from tests.bench.cells import Target, captured_produce, cell, fill, new_topic, wait_for_controller
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
    host, port = target.servers.split(":")
    selector = selectors.DefaultSelector()
    answer_bytes = 0
    for _ in range(connections):
        peer = socket.create_connection((host, int(port)), TIMEOUT_S)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(peer, selectors.EVENT_READ)
        peer.sendall(request)
        answer_bytes = struct.unpack(">i", peer.recv(4))[0] + 4
        peer.recv(answer_bytes - 4)
    peers = [each.fileobj for each in selector.get_map().values()]
    for each in peers:
        each.sendall(request)  # type: ignore[union-attr]
    answers = _answers(selector, request, answer_bytes, target.seconds / 4)  # warms up
    before_s, began = cpu_s(target.cluster.broker(1)), time.perf_counter()
    answers = _answers(selector, request, answer_bytes, target.seconds)
    took_s, spent_s = time.perf_counter() - began, cpu_s(target.cluster.broker(1)) - before_s
    for each in peers:
        each.close()  # type: ignore[union-attr]
    return answers / took_s, spent_s / answers * 1e6


def _answers(selector: selectors.BaseSelector, request: bytes, answer_bytes: int, seconds: float) -> int:
    """How many came in that time; whoever was answered sends again."""
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        for key, _ in selector.select(1.0):
            peer = key.fileobj
            if len(peer.recv(65_536)) != answer_bytes:  # type: ignore[union-attr]
                raise ConnectionError("an answer came in pieces, or none")
            peer.sendall(request)  # type: ignore[union-attr]
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
