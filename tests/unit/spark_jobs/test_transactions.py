"""The sink's transactions: what a task leaves to the driver, and what the driver makes of it, however often a batch is run."""

from __future__ import annotations

from typing import Any

import pyarrow
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from kafkalite.client import ClientError, ErrorCode, PreparedTransaction, ProducerFencedError, TopicPartition
from kafkalite.client.records import OffsetAndMetadata
from spark_jobs import writer
from spark_jobs.options import OptionError, sink_options
from spark_jobs.transactions import PLACE, DriverTransactions, StaleCheckpointError, Written, producer_options
from spark_jobs.writer import SinkWriter

QUERY = "6b1f"
FIRST, SECOND = PreparedTransaction("p-0", 7, 0), PreparedTransaction("p-1", 8, 0)


class Brokers:
    """Takes the place of `SyncAdmin`: what was ended, and the group's offset as far as committed transactions have it."""

    def __init__(self) -> None:
        self.ended: list[tuple[PreparedTransaction, bool]] = []
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.problem: ClientError | None = None

    def __call__(self, **_: Any) -> Brokers:
        return self

    def __enter__(self) -> Brokers:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def list_group_offsets(self, group: str, places: list[TopicPartition], *, require_stable: bool) -> dict[Any, Any]:
        assert group == "p" and require_stable
        return {each: self.committed.get(each) for each in places}

    def end_transaction(
        self, prepared: PreparedTransaction, *, commit: bool, offsets: Any = None, group_id: str | None = None
    ) -> None:
        if self.problem is not None:
            raise self.problem
        self.ended.append((prepared, commit))
        for each, (offset, note) in (offsets or {}).items():
            self.committed[each] = OffsetAndMetadata(offset, note)


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def driver(brokers: Brokers) -> DriverTransactions:
    return DriverTransactions({"bootstrap.servers": "b:1"}, "p", brokers)  # type: ignore[arg-type]


def test_a_batch_that_is_run_again_is_committed_once(driver: DriverTransactions, brokers: Brokers) -> None:
    """The driver died after the commit, and before Spark wrote down that the batch is done."""
    for batch in (0, 1, 1, 2):
        driver.commit_batch([Written(FIRST, QUERY)], batch)
    assert [commit for _, commit in brokers.ended] == [True, True, False, True]
    assert brokers.committed == {PLACE: OffsetAndMetadata(3, QUERY)}


@pytest.mark.parametrize("batch, query", [(3, QUERY), (0, QUERY), (5, "")])
def test_a_checkpoint_that_lies_further_behind_is_refused(
    driver: DriverTransactions, brokers: Brokers, batch: int, query: str
) -> None:
    """It was put back to an older state, and its next batch has other rows than the one of that number that is in the topic."""
    brokers.committed[PLACE] = OffsetAndMetadata(5, query)
    with pytest.raises(StaleCheckpointError, match=f"batch {batch}"):
        driver.commit_batch([Written(FIRST, query)], batch)
    assert brokers.ended == [(FIRST, False)] and brokers.committed[PLACE].offset == 5


def test_a_batch_whose_driver_died_before_the_commit_is_written_again(
    driver: DriverTransactions, brokers: Brokers
) -> None:
    brokers.problem = ClientError(ErrorCode.REQUEST_TIMED_OUT)
    with pytest.raises(ClientError):
        driver.commit_batch([Written(FIRST, QUERY)], 5)
    brokers.problem = None
    driver.commit_batch([Written(FIRST, QUERY)], 5)
    assert brokers.ended == [(FIRST, True)]


def test_a_new_checkpoint_is_another_query(driver: DriverTransactions, brokers: Brokers) -> None:
    driver.commit_batch([Written(FIRST, QUERY)], 57)
    driver.commit_batch([Written(FIRST, "another")], 0)
    assert [commit for _, commit in brokers.ended] == [True, True]


def test_a_driver_that_was_replaced_commits_nothing(driver: DriverTransactions, brokers: Brokers) -> None:
    brokers.problem = ProducerFencedError(ErrorCode.PRODUCER_FENCED)
    with pytest.raises(ProducerFencedError):
        driver.commit_batch([Written(FIRST, QUERY)], 0)
    driver.abort([Written(FIRST, QUERY)])  # as Spark does then; somebody else has done so
    assert not brokers.committed


def test_a_micro_batch_of_several_tasks_is_refused_before_anything_is_committed(
    driver: DriverTransactions, brokers: Brokers
) -> None:
    with pytest.raises(OptionError, match="coalesce"):
        driver.commit_batch([Written(FIRST, QUERY), Written(SECOND, QUERY)], 0)
    assert brokers.ended == [(FIRST, False), (SECOND, False)]


def test_a_batch_write_commits_what_its_tasks_have_written(driver: DriverTransactions, brokers: Brokers) -> None:
    messages: list[WriterCommitMessage | None] = [Written(FIRST), None, Written(), Written(SECOND)]
    driver.commit(messages)
    driver.abort(messages)
    assert brokers.ended == [(FIRST, True), (SECOND, True), (FIRST, False), (SECOND, False)]


class Producer:
    """Takes the place of `SyncProducer`, and writes down what it is asked for."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.problem: Exception | None = None
        self.raises = False
        """In the call; else the problem is told of later."""
        self.options: dict[str, Any] = {}

    def __call__(self, **options: Any) -> Producer:
        self.options = options
        return self

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any, on_failure: Any = None, **__: Any) -> Any:
            self.calls.append(name)
            if on_failure is not None and self.problem is not None:
                if self.raises:
                    raise self.problem
                on_failure(self.problem)
            return FIRST if name == "prepare_transaction" else None

        return call


@pytest.mark.parametrize("fails, raises", [(False, False), (True, False), (True, True)])
def test_a_task_leaves_its_transaction_to_the_driver(
    monkeypatch: pytest.MonkeyPatch, fails: bool, raises: bool
) -> None:
    producer = Producer()
    producer.problem, producer.raises = ClientError(ErrorCode.MESSAGE_TOO_LARGE) if fails else None, raises
    monkeypatch.setattr(writer, "SyncProducer", producer)
    options = sink_options({"kafka.bootstrap.servers": "b:1", "topic": "t", "Transactional.Id.Prefix": "p"})
    subject = SinkWriter(options, StructType().add("value", "binary"))
    batches = iter([pyarrow.record_batch({"value": [b"x"]})])
    if fails:
        with pytest.raises(ClientError):
            subject.write(batches)
    else:
        assert subject.write(batches) == Written(FIRST, "")
    end = ["abort_transaction", "close"] if fails else ["prepare_transaction"]
    assert producer.calls == ["init_transactions", "begin_transaction", "send_columns", *end]
    assert producer.options["transactional_id"] == "p-0" and subject.driver is not None


def test_what_a_task_may_take_is_the_users_to_say() -> None:
    assert producer_options({}, "p", 3)["transaction_timeout_ms"] == 900_000
    assert producer_options({"transaction.timeout.ms": "5000"}, "p", 3)["transaction_timeout_ms"] == 5000


@pytest.mark.parametrize("name", ["kafka.transactional.id", "transactional.id.prefix"])
def test_options_that_cannot_be(name: str) -> None:
    with pytest.raises(OptionError, match="transactional"):
        sink_options({"kafka.bootstrap.servers": "b:1", name: " "})
