"""Markers reach the leaders of all partitions, whoever that is by then, and nothing is told as written before it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kafkalite.broker.coordination.marker_sender import MarkerSender
from kafkalite.broker.coordination.transaction_markers import TransactionMarker
from kafkalite.controller.control_requests import LiveBroker
from kafkalite.coordinators.transaction.requests import WriteMarkers
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import Endpoint, TopicPartition
from tests.unit.broker.memory_parts import MemoryParts, know

E = ErrorCode
M = messages.write_txn_markers_response


class Peer:
    """Broker 2: notes what it is asked; `codes` are its answers to come, NONE after these, None breaks the connection."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.codes: list[ErrorCode | None] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.opened: list[Endpoint] = []

    def open(self, endpoint: Endpoint) -> Peer:
        self.opened.append(endpoint)
        return self

    async def request(self, message: Any, version: int) -> Any:
        self.requests.append(message)
        await self.gate.wait()
        code = self.codes.pop(0) if self.codes else E.NONE
        if code is None:
            raise ConnectionResetError("gone")
        return M.WriteTxnMarkersResponse(
            markers=[
                M.WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        M.WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                M.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in message.markers
            ]
        )

    def close(self) -> None: ...


class Site:
    """Broker 1 coordinates partition 0 in epoch 4 and leads "here"; broker 2 leads "there"."""

    def __init__(self) -> None:
        self.metadata = MemoryParts().metadata
        know(self.metadata, TopicPartition("here", 0), leader=1)
        know(self.metadata, TopicPartition("there", 0), leader=2)
        know(self.metadata, TopicPartition("there", 1), leader=2)
        self.peer = Peer()
        self.epochs: dict[int, int] = {0: 4}
        self.written: list[tuple[str, int, int]] = []
        self.local: list[TransactionMarker] = []
        self.local_codes: list[ErrorCode] = []
        self.in_zookeeper = {"here": 1, "there": 2}
        self.sender = MarkerSender(
            1,
            "PLAINTEXT",
            1,
            self.metadata,
            self.epochs.get,
            lambda *done: self.written.append(done),
            self.write_here,
            self.peer.open,
            self.partition_count,
            lambda coroutine, name: asyncio.get_running_loop().create_task(coroutine, name=name),
        )

    async def write_here(self, markers: Sequence[TransactionMarker]) -> list[dict[TopicPartition, ErrorCode]]:
        self.local += markers
        code = self.local_codes.pop(0) if self.local_codes else E.NONE
        return [dict.fromkeys(each.partitions, code) for each in markers]

    async def partition_count(self, topic: str) -> int:
        return self.in_zookeeper.get(topic, 0)

    def send(self, name: str = "id", producer_id: int = 7, partition: int = 0, **topics: set[int]) -> None:
        partitions = {topic: frozenset(indexes) for topic, indexes in topics.items()}
        self.sender.send(partition, WriteMarkers(name, producer_id, 3, True, partitions))


def play(scenario: Callable[[Site], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario(Site())

    virtual_time.run(run())


def asked(request: Any) -> list[tuple[int, int, int, bool, list[tuple[str, list[int]]]]]:
    return [
        (
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.transaction_result,
            [(topic.name, topic.partition_indexes) for topic in each.topics],
        )
        for each in request.markers
    ]


DONE = [("id", 7, 3)]


def test_each_leader_gets_its_markers_and_all_of_them_are_awaited() -> None:
    async def scenario(site: Site) -> None:
        site.peer.gate.clear()
        site.send(here={0}, there={0, 1})
        await virtual_time.settle()
        assert site.local == [TransactionMarker(7, 3, 4, True, (TopicPartition("here", 0),))] and not site.written
        assert asked(site.peer.requests[0]) == [(7, 3, 4, True, [("there", [0, 1])])]
        assert site.sender.unwritten("id") == {TopicPartition("there", 0), TopicPartition("there", 1)}
        site.peer.gate.set()
        await virtual_time.settle()
        assert site.sender.unwritten("id") is None
        assert site.written == DONE and site.sender.statistics() == {"transactions": 0, "partitions": 0}

    play(scenario)


def test_a_transaction_without_partitions_is_done() -> None:
    async def scenario(site: Site) -> None:
        site.send()
        assert not site.written, "not before the machine has heard that it is sent"
        await virtual_time.settle()
        assert site.written == DONE

    play(scenario)


def test_brokers_get_markers_in_the_order_of_the_partitions() -> None:
    """A set gave the order, another one in each process, so that a simulation run did not repeat."""

    async def scenario(site: Site) -> None:
        leaders = {f"topic-{broker_id}": broker_id for broker_id in range(2, 22)}
        for topic, broker_id in leaders.items():
            know(site.metadata, TopicPartition(topic, 0), leader=broker_id)
            endpoint = Endpoint("PLAINTEXT", f"host{broker_id}", 9092)
            site.metadata.brokers[broker_id] = LiveBroker(broker_id, {"PLAINTEXT": endpoint})
        site.send(**{topic: {0} for topic in leaders})
        await virtual_time.settle()
        assert [marker.topics[0].name for each in site.peer.requests for marker in each.markers] == list(leaders)

    play(scenario)


def test_what_comes_while_a_request_is_under_way_goes_together_in_the_next() -> None:
    async def scenario(site: Site) -> None:
        site.peer.gate.clear()
        for index in range(5):
            site.send(f"id-{index}", index, there={0})
            await virtual_time.settle()
        site.peer.gate.set()
        await virtual_time.settle()
        assert [len(each.markers) for each in site.peer.requests] == [1, 4] and len(site.written) == 5
        assert len(site.peer.opened) == 1

    play(scenario)


def test_a_request_holds_a_thousand_partitions() -> None:
    async def scenario(site: Site) -> None:
        for index in range(1500):
            know(site.metadata, TopicPartition("many", index), leader=2)
        for index in range(3):
            site.send(f"id-{index}", index, many=set(range(400)))
        site.send("large", 9, many=set(range(1500)))
        await virtual_time.settle()
        sizes = [[len(each.topics[0].partition_indexes) for each in request.markers] for request in site.peer.requests]
        assert sizes == [[400, 400], [400], [1500]] and len(site.written) == 4

    play(scenario)


def test_what_is_refused_or_not_answered_is_sent_again() -> None:
    async def scenario(site: Site) -> None:
        site.peer.codes = [None, E.NOT_ENOUGH_REPLICAS, E.REQUEST_TIMED_OUT, E.UNKNOWN_TOPIC_OR_PARTITION]
        site.local_codes = [E.NOT_LEADER_OR_FOLLOWER, E.UNKNOWN_SERVER_ERROR]
        site.send(here={0}, there={0})
        await asyncio.sleep(2)
        assert site.written == DONE
        assert len(site.peer.requests) == 5 and len(site.local) == 3

    play(scenario)


def test_the_leader_is_looked_up_anew_each_time() -> None:
    async def scenario(site: Site) -> None:
        know(site.metadata, TopicPartition("there", 0), leader=-1)
        site.send(there={0})
        await asyncio.sleep(0.5)
        assert not site.peer.requests and not site.written
        know(site.metadata, TopicPartition("there", 0), leader=3)  # which is not registered
        await asyncio.sleep(2)
        know(site.metadata, TopicPartition("there", 0), leader=1)
        await asyncio.sleep(2)
        assert site.written == DONE and site.local[0].partitions == (TopicPartition("there", 0),)

    play(scenario)


def test_a_broker_that_comes_back_elsewhere_is_found() -> None:
    async def scenario(site: Site) -> None:
        site.send(there={0})
        await virtual_time.settle()
        site.metadata.brokers[2].endpoints["PLAINTEXT"] = Endpoint("PLAINTEXT", "elsewhere", 9)
        site.send(there={0})
        await virtual_time.settle()
        assert [each.host for each in site.peer.opened] == ["host2", "elsewhere"] and site.written == DONE * 2

    play(scenario)


def test_a_partition_that_was_deleted_needs_no_marker_and_one_that_metadata_lacks_does() -> None:
    async def scenario(site: Site) -> None:
        del site.metadata.topics["there"]
        site.send(here={0}, there={0}, deleted={0}, here_no_more={5})
        await asyncio.sleep(1)
        assert not site.written and site.sender.statistics()["partitions"] == 1, "metadata is behind ZooKeeper"
        know(site.metadata, TopicPartition("there", 0), leader=2)
        await asyncio.sleep(2)
        assert site.written == DONE and len(site.peer.requests) == 1

    play(scenario)


def test_who_does_not_coordinate_any_more_sends_no_more() -> None:
    async def scenario(site: Site) -> None:
        site.peer.codes = [None, None]
        site.send(there={0})
        await virtual_time.settle()
        del site.epochs[0]
        await asyncio.sleep(2)
        assert len(site.peer.requests) == 1 and not site.written
        assert site.sender.statistics()["transactions"] == 0

    play(scenario)


def test_what_is_sent_again_carries_the_epoch_of_now() -> None:
    async def scenario(site: Site) -> None:
        site.peer.codes = [E.NOT_LEADER_OR_FOLLOWER]
        site.send(there={0})
        await virtual_time.settle()
        site.epochs[0] = 5
        await asyncio.sleep(1)
        assert [asked(each)[0][2] for each in site.peer.requests] == [4, 5] and site.written == DONE

    play(scenario)


def test_a_coordinator_that_was_fenced_leaves_the_transaction_alone() -> None:
    async def scenario(site: Site) -> None:
        site.peer.codes = [E.TRANSACTION_COORDINATOR_FENCED]
        site.send(here={0}, there={0})
        await asyncio.sleep(2)
        assert not site.written and len(site.peer.requests) == 1

    play(scenario)


def test_a_transaction_that_is_sent_anew_replaces_what_is_under_way() -> None:
    """The partition was lost and won again: the answer to the old request says nothing about the new one."""

    async def scenario(site: Site) -> None:
        site.peer.gate.clear()
        site.send(there={0})
        await virtual_time.settle()
        site.send(there={0})
        site.peer.gate.set()
        await virtual_time.settle()
        assert site.written == DONE and len(site.peer.requests) == 2

    play(scenario)


def test_partitions_of_older_formats_have_no_transactions() -> None:
    async def scenario(site: Site) -> None:
        site.local_codes = [E.UNSUPPORTED_FOR_MESSAGE_FORMAT]
        site.send(here={0})
        await virtual_time.settle()
        assert site.written == DONE

    play(scenario)
