"""`kafkalite perf` against a scripted cluster, and what its records hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkalite.cli.main import main
from kafkalite.perf.payloads import payloads_of_file, random_payloads
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import FakeCluster, values_in

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["perf", *arguments])


def test_producing_tells_rate_and_latencies(cluster: FakeCluster) -> None:
    result = call("produce", "t", "-n", "500", "-s", "20", "-X", "batch.size=1000", "-o", "json")
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)
    assert {name: row[name] for name in ("topic", "records", "bytes", "failed")} == {
        "topic": "t",
        "records": 500,
        "bytes": 10_000,
        "failed": 0,
    }
    assert row["records_per_s"] > 0 and 0 < row["p50_ms"] <= row["p999_ms"] <= row["max_ms"]
    values = values_in(cluster, T0) + values_in(cluster, T1)
    assert len(values) == 500 and {len(each) for each in values} == {20}
    table = call("produce", "t", "-n", "5", "-s", "1", "--acks", "1").stdout.splitlines()
    assert table[0].split()[:3] == ["RECORDS", "ELAPSED", "MS"] and table[1].split()[0] == "5"


def test_refused_records_are_a_failure(cluster: FakeCluster) -> None:
    m = messages.produce_response
    for _ in range(2):
        answers = [m.PartitionProduceResponse(index=each, error_code=29, base_offset=-1) for each in (0, 1)]
        answer = m.ProduceResponse(responses=[m.TopicProduceResponse(name="t", partition_responses=answers)])
        cluster.script[ApiKey.PRODUCE].append(answer)
    result = call("produce", "t", "-n", "5", "-o", "json")
    assert result.exit_code == 1 and "5 of 5 records were not written" in result.stderr
    assert json.loads(result.stdout)[0]["records"] == 0


def test_consuming(cluster: FakeCluster) -> None:
    call("produce", "t", "-n", "300", "-s", "10")
    enough = call("consume", "t", "-n", "200", "-o", "json")
    assert enough.exit_code == 0 and json.loads(enough.stdout)[0]["records"] == 200
    fewer = call("consume", "t", "-n", "301", "--idle-timeout", "2", "-o", "json")
    assert fewer.exit_code == 1 and "only 300 of 301 records came" in fewer.stderr
    assert json.loads(fewer.stdout)[0]["timed_out"] is True
    assert call("consume", "nope", "-n", "1").exit_code == 3


def test_there_and_back(cluster: FakeCluster) -> None:
    result = call("end-to-end", "t", "-n", "5", "-X", "fetch.max.wait.ms=10", "-o", "jsonl")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["records"] == 5
    assert call("end-to-end", "t", "-s", "15").exit_code == 2


def test_off_a_terminal_progress_is_lines_for_people(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalite.cli.perf._LINE_INTERVAL_MS", 0)
    result = call("produce", "t", "-n", "50")
    *_, last = result.stderr.splitlines()
    assert last.startswith("writing to t: 50 of 50, ") and "records/s" in last and "{" not in result.stderr


def test_off_a_terminal_progress_is_events_when_json_is_asked_for(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkalite.cli.perf._LINE_INTERVAL_MS", 0)
    result = call("produce", "t", "-n", "50", "-o", "jsonl")
    *_, last = [json.loads(line) for line in result.stderr.splitlines()]
    assert (last["event"], last["what"], last["done"], last["total"]) == ("progress", "writing to t", 50, 50)
    assert last["latency"]["max_ms"] > 0
    assert "progress" not in result.stdout


def test_random_payloads_are_letters_of_the_size_and_repeatable() -> None:
    value_of = random_payloads(100)
    assert len(value_of(0)) == 100 and value_of(0).isalpha() and value_of(0).isupper()
    assert value_of(0) != value_of(1) and value_of(0) == value_of(1024) == random_payloads(100)(0)
    assert random_payloads(0)(5) == b""
    assert len(random_payloads(20_000_000)(7)) == 20_000_000


def test_payloads_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "payloads"
    path.write_text("one\ntwo\nthree")
    value_of = payloads_of_file(path)
    assert {value_of(number) for number in range(100)} == {b"one", b"two", b"three"}
    path.write_text("one;\ntwo;\n")
    value_of = payloads_of_file(path, ";\\n")
    assert {value_of(number) for number in range(100)} == {b"one", b"two"}
    path.write_text("")
    with pytest.raises(ValueError, match="is empty"):
        payloads_of_file(path)
    result = call("produce", "t", "--payload-file", str(path))
    assert result.exit_code == 2 and f"the payload file {path} is empty" in result.stderr
