"""`kafkalite log dump --records` decodes what coordinators of transactions wrote."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from kafkalite.cli.log import log
from kafkalite.cli.transaction_records import decode_record
from kafkalite.coordinators.transaction.transaction_record import (
    StoredTransaction,
    TransactionState,
    encode_key,
    encode_value,
)
from kafkalite.protocol.record_batches.records import NewRecord, build_batch

ONGOING = encode_value(
    StoredTransaction(7, 3, 60000, TransactionState.ONGOING, {"b": frozenset({1, 0}), "a": frozenset({2})}, 1000, 900)
)
SHOWN = {
    "producer_id": 7,
    "producer_epoch": 3,
    "timeout_ms": 60000,
    "state": "Ongoing",
    "partitions": ["a-2", "b-0", "b-1"],
    "last_update_ms": 1000,
    "start_ms": 900,
}


def test_what_is_a_record_of_a_transaction() -> None:
    key = encode_key("x")
    assert decode_record(key, ONGOING) == ({"transactional_id": "x"}, SHOWN)
    assert decode_record(key, None) == ({"transactional_id": "x"}, None)
    for wrong in ((None, ONGOING), (b"", ONGOING), (b"\0\1\0\1x", ONGOING), (key, b"\0\x09"), (key, b"\0\0\1")):
        assert decode_record(*wrong) is None


def test_records_are_shown_by_their_meaning_in_their_topic_only(tmp_path: Path) -> None:
    data = build_batch([NewRecord(encode_key("x"), ONGOING, 1000)])
    shown = {}
    for partition in ("__transaction_state-4", "other-0"):
        segment = tmp_path / partition / "00000000000000000000.log"
        segment.parent.mkdir()
        segment.write_bytes(data)
        result = CliRunner().invoke(log, ["dump", "--records", "-o", "jsonl", str(segment)], catch_exceptions=False)
        assert result.exit_code == 0
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        (shown[partition],) = (row for row in rows if row["kind"] == "record")
    record = shown["__transaction_state-4"]
    assert (record["key"], record["value"]) == ({"transactional_id": "x"}, SHOWN)
    assert shown["other-0"]["value"] != SHOWN
    assert "transactional_id" in CliRunner().invoke(log, ["dump", "--records", str(tmp_path)]).stdout
