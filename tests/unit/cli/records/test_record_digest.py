"""`kafkalite record digest`: which ranges are asked for, what is shown of them, and its exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkalite.cli.main import main
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.protocol.record_batches.record_digest import hash_record
from kafkalite.protocol.record_batches.records import NewRecord, build_batch
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import FakeCluster, FakeConnection

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOON = 1_359_633_600_000
"""2013-01-31T12:00:00Z."""


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["record", "digest", *arguments])


def list_ranges_asked(cluster: FakeCluster) -> dict[TopicPartition, tuple[int, int]]:
    return {
        TopicPartition(each.topic, each.partition_index): (each.start_offset, each.end_offset)
        for each in cluster.requests_of(ApiKey.DIGEST_RECORDS)
    }


def answer(_: int, request: Any) -> Any:
    return messages.DigestRecordsResponse(
        next_offset=request.end_offset,
        records=2,
        first_offset=request.start_offset,
        last_offset=request.end_offset - 1,
        least_timestamp=NOON,
        largest_timestamp=NOON + 1,
        content_bytes=7,
        fingerprint=bytes(15) + b"\x2a",
    )


@pytest.fixture
def filled(cluster: FakeCluster) -> FakeCluster:
    for place, count in ((T0, 5), (T1, 3)):
        records = [NewRecord(b"k", b"%d" % number, NOON + 1000 * number) for number in range(count)]
        for each in records:
            cluster.append(place, build_batch([each]))
    cluster.script[ApiKey.DIGEST_RECORDS].extend([answer] * 2)
    return cluster


def test_all_that_is_committed_of_all_partitions(filled: FakeCluster) -> None:
    result = call("t")
    assert result.exit_code == 0, result.output
    assert list_ranges_asked(filled) == {T0: (0, 5), T1: (0, 3)}
    title, first, second = result.stdout.splitlines()
    assert title.split() == ["TOPIC", "PARTITION", "FROM", "TO", "RECORDS", "CONTENT", "BYTES", "FINGERPRINT"]
    assert first.split() == ["t", "0", "0", "5", "2", "7", f"{42:032x}"]
    assert second.split() == ["t", "1", "0", "3", "2", "7", f"{42:032x}"]
    levels = {each.isolation_level for each in filled.requests_of(ApiKey.LIST_OFFSETS)}
    assert levels == {1}, "the latest offset is the last stable one"


def test_one_partition_as_json(filled: FakeCluster) -> None:
    result = call("t", "-p", "1", "--from", "1", "--to", "2", "--fresh", "-o", "json")
    assert json.loads(result.stdout) == [
        {
            "topic": "t",
            "partition": 1,
            "from": 1,
            "to": 2,
            "records": 2,
            "first_offset": 1,
            "last_offset": 1,
            "least_timestamp": NOON,
            "largest_timestamp": NOON + 1,
            "content_bytes": 7,
            "fingerprint": f"{42:032x}",
        }
    ]
    assert [each.is_fresh for each in filled.requests_of(ApiKey.DIGEST_RECORDS)] == [True]


@pytest.mark.parametrize(
    ("options", "spans"),
    [
        (("--from", "2013-01-31T12:00:02Z"), {T0: (2, 5), T1: (2, 3)}),
        (("--to", "2013-01-31T12:00:01Z"), {T0: (0, 1), T1: (0, 1)}),
        (("--from", "2013-01-31T12:00:04Z", "--to", "2013-01-31T13:00:00Z"), {T0: (4, 5), T1: (3, 3)}),
        (("--from", "latest"), {T0: (5, 5), T1: (3, 3)}),
        (("--from", "0", "--to", "0"), {T0: (0, 0), T1: (0, 0)}),
    ],
    ids=str,
)
def test_ranges_by_time(filled: FakeCluster, options: tuple[str, ...], spans: dict[TopicPartition, Any]) -> None:
    result = call("t", *options, "-o", "json")
    assert result.exit_code == 0, result.output
    assert {
        TopicPartition("t", each["partition"]): (each["from"], each["to"]) for each in json.loads(result.stdout)
    } == spans
    assert list_ranges_asked(filled) == {each: span for each, span in spans.items() if span[0] < span[1]}, (
        "nothing is asked about nothing"
    )


def test_records_of_a_span_of_time(filled: FakeCluster) -> None:
    assert call("t", "--since", "2013-01-31T12:00:00Z", "--until", "2013-01-31T12:00:01").exit_code == 0
    spans = {(each.since_timestamp, each.until_timestamp) for each in filled.requests_of(ApiKey.DIGEST_RECORDS)}
    assert spans == {(NOON, NOON + 1000)}
    assert call("t", "--since", "noon").exit_code == 2


def test_what_cannot_be_digested(filled: FakeCluster) -> None:
    beyond = call("t", "--to", "4")
    assert (beyond.exit_code, beyond.stderr) == (
        1,
        "Error: t-1 has committed records from offset 0 to before 3; 0 to 4 is no range of them\n",
    )
    assert call("t", "--from", "3", "--to", "2").exit_code == 1
    assert call("t", "-p", "7").exit_code == 3
    nonsense = call("t", "--from", "noon")
    assert nonsense.exit_code == 2 and "'noon' is no offset and no time like 2013-01-31T12:00:00Z" in nonsense.stderr
    assert not list_ranges_asked(filled)


def test_errors_of_brokers_end_the_command(filled: FakeCluster) -> None:
    for code, exit_code in ((ErrorCode.TOPIC_AUTHORIZATION_FAILED, 6), (ErrorCode.CORRUPT_MESSAGE, 1)):
        refused = messages.DigestRecordsResponse(error_code=code, error_message="the batch at offset 3 has a wrong CRC")
        filled.script[ApiKey.DIGEST_RECORDS].clear()
        filled.script[ApiKey.DIGEST_RECORDS].append(refused)
        result = call("t", "-p", "0")
        assert (result.exit_code, result.stdout) == (exit_code, "")
        assert "digesting t-0" in result.stderr and "the batch at offset 3 has a wrong CRC" in result.stderr


def test_brokers_that_do_not_know_the_request_are_read(filled: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def version_of(self: FakeConnection, api_key: int, *, with_dropped: bool = False) -> int:
        if api_key == ApiKey.DIGEST_RECORDS:
            raise ValueError("it speaks no digest_records")
        return APIS[api_key].max_version

    monkeypatch.setattr(FakeConnection, "version_of", version_of)
    result = call("t", "-p", "1", "-o", "json")
    assert result.exit_code == 0, result.output
    total = sum(hash_record(number, NOON + 1000 * number, b"k", b"%d" % number) for number in range(3))
    (row,) = json.loads(result.stdout)
    assert (row["records"], row["content_bytes"], row["fingerprint"]) == (3, 6, f"{total % (1 << 128):032x}")
    assert not list_ranges_asked(filled)
