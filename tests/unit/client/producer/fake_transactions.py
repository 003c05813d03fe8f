"""A scripted cluster that coordinates the transactions of one transactional id, and refuses what a broker would refuse."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from kafkalite.client.record_reader import read_records
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches.records import BatchHeader
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import Answer, FakeCluster


class TransactionalCluster(FakeCluster):
    """`visible` has the values that readers of committed records see, `committed_offsets` those of groups; `coordinator` may be moved.

    `outcomes` lists the ends of transactions, True for a commit. `fence()` is another producer with the same transactional id.
    """

    def __init__(self, topics: dict[str, int], brokers: int = 2) -> None:
        super().__init__(topics, brokers)
        self.coordinator = 1
        self.producer_id, self.producer_epoch = 7, -1
        self.partitions: set[TopicPartition] = set()
        self.groups: set[str] = set()
        self.pending: defaultdict[TopicPartition, list[bytes | None]] = defaultdict(list)
        self.visible: defaultdict[TopicPartition, list[bytes | None]] = defaultdict(list)
        self.pending_offsets: dict[tuple[str, TopicPartition], int] = {}
        self.committed_offsets: dict[tuple[str, TopicPartition], int] = {}
        self.outcomes: list[bool] = []

    def fence(self) -> None:
        self._end(False)
        self.producer_epoch += 1

    def answer(self, broker_id: int, request: Any) -> Answer:
        key = request.API.key
        if key not in _ANSWERS or self.script[key]:
            return super().answer(broker_id, request)
        return _ANSWERS[key](self, broker_id, request)

    def _refusal(self, broker_id: int, producer_id: int, epoch: int) -> int:
        if broker_id != self.coordinator:
            return ErrorCode.NOT_COORDINATOR
        if producer_id != self.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.NONE if epoch == self.producer_epoch else ErrorCode.PRODUCER_FENCED

    def _find(self, _: int, request: Any) -> Any:
        m = messages.find_coordinator_response
        host, port = self.brokers[self.coordinator]
        key = request.coordinator_keys[0]
        found = m.Coordinator(key=key, node_id=self.coordinator, host=host, port=port)
        return m.FindCoordinatorResponse(coordinators=[found])

    def _init(self, broker_id: int, request: Any) -> Any:
        m = messages.init_producer_id_response
        known = (self.producer_id, self.producer_epoch)
        if broker_id != self.coordinator:
            return m.InitProducerIdResponse(error_code=ErrorCode.NOT_COORDINATOR)
        if request.producer_id >= 0 and (request.producer_id, request.producer_epoch) != known:
            return m.InitProducerIdResponse(error_code=ErrorCode.PRODUCER_FENCED)
        self._end(False)
        self.producer_epoch += 1
        return m.InitProducerIdResponse(producer_id=self.producer_id, producer_epoch=self.producer_epoch)

    def _add_partitions(self, broker_id: int, request: Any) -> Any:
        m = messages.add_partitions_to_txn_response
        code = self._refusal(broker_id, request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        named = {TopicPartition(topic.name, each) for topic in request.v3_and_below_topics for each in topic.partitions}
        if not code:
            self.partitions |= named
        return m.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                m.AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        m.AddPartitionsToTxnPartitionResult(partition_index=each, partition_error_code=code)
                        for each in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    def _add_offsets(self, broker_id: int, request: Any) -> Any:
        code = self._refusal(broker_id, request.producer_id, request.producer_epoch)
        if not code:
            self.groups.add(request.group_id)
        return messages.add_offsets_to_txn_response.AddOffsetsToTxnResponse(error_code=code)

    def _commit_offsets(self, _: int, request: Any) -> Any:
        m = messages.txn_offset_commit_response
        assert request.group_id in self.groups, "AddOffsetsToTxn comes first"
        for topic in request.topics:
            for each in topic.partitions:
                place = request.group_id, TopicPartition(topic.name, each.partition_index)
                self.pending_offsets[place] = each.committed_offset
        return m.TxnOffsetCommitResponse(
            topics=[
                m.TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        m.TxnOffsetCommitResponsePartition(partition_index=each.partition_index)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _end_txn(self, broker_id: int, request: Any) -> Any:
        code = self._refusal(broker_id, request.producer_id, request.producer_epoch)
        if not code and not self.partitions and not self.groups:
            code = ErrorCode.INVALID_TXN_STATE
        if not code:
            self._end(request.committed)
            self.outcomes.append(request.committed)
        return messages.end_txn_response.EndTxnResponse(error_code=code)

    def _end(self, committed: bool) -> None:
        if committed:
            for each, values in self.pending.items():
                self.visible[each] += values
            self.committed_offsets.update(self.pending_offsets)
        for left in (self.partitions, self.groups, self.pending, self.pending_offsets):
            left.clear()

    def _produced(self, broker_id: int, name: str, data: Any) -> Any:
        m = messages.produce_response
        topic_partition, header = TopicPartition(name, data.index), BatchHeader.read(data.records)
        if header.is_transactional and self.leaders.get(topic_partition) == broker_id:
            if header.producer_epoch != self.producer_epoch:
                return m.PartitionProduceResponse(index=data.index, error_code=ErrorCode.INVALID_PRODUCER_EPOCH)
            if topic_partition not in self.partitions:
                return m.PartitionProduceResponse(index=data.index, error_code=ErrorCode.INVALID_TXN_STATE)
        before = len(self.logs[topic_partition])
        answer = super()._produced(broker_id, name, data)
        if len(self.logs[topic_partition]) > before:
            self.pending[topic_partition] += [
                each.value for each in read_records(data.records, header, *topic_partition, 0)
            ]
        return answer


_ANSWERS: dict[int, Any] = {
    ApiKey.FIND_COORDINATOR: TransactionalCluster._find,
    ApiKey.INIT_PRODUCER_ID: TransactionalCluster._init,
    ApiKey.ADD_PARTITIONS_TO_TXN: TransactionalCluster._add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: TransactionalCluster._add_offsets,
    ApiKey.TXN_OFFSET_COMMIT: TransactionalCluster._commit_offsets,
    ApiKey.END_TXN: TransactionalCluster._end_txn,
}
