"""The bench of memory: figures of weights that a test makes up, and the page of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafkalite.protocol.record_batches.records import header_at
from tests.bench.memory import FEW, KINDS
from tests.bench.memory_figures import Limits, Weight, bytes_for_each, find_obstacle, parse_histogram
from tests.bench.memory_loads import PARTITIONS, local_address, portions, produce_request
from tests.bench.memory_page import CAUSES, main, page
from tests.bench.weighed_broker import bytes_by_type

HISTOGRAM = """ num     #instances         #bytes  class name (module)
-------------------------------------------------------
   1:         30000        1440000  [B (java.base@17.0.1)
   2:         10000         320000  org.apache.kafka.common.network.KafkaChannel
   3:             1             24  org.apache.kafka.common.network.KafkaChannel
Total         40001        1760024
"""


def row(side: str, size: int, resident: float, live: float, kind: str = "connection") -> dict[str, Any]:
    types = {"builtins.dict": 300.0, "uvloop.loop.TCPTransport": 200.0, "[B": 9.0, "[Ljava.lang.Object;": 8.0}
    each = {"resident": resident, "live": live, "types": types}
    return {"side": side, "kind": kind, "size": size, "each": each, "load": [0.5, 2.0]}


def result(*rows: dict[str, Any]) -> dict[str, Any]:
    return {
        "at": "20260101T000000Z",
        "command": "python -m tests.bench.memory",
        "machine": {"processors": 2},
        "sides": {"kafkalite": "1.0", "Apache Kafka": "3.9.1"},
        "properties": {"max.connections": "5"},
        "few": FEW,
        "measured": [*rows],
    }


def test_each_takes_what_the_broker_grew_by_divided_by_their_number() -> None:
    empty = Weight(1000, 500, {"a": 100, "b": 50, "gone": 9})
    each = bytes_for_each(empty, Weight(3000, 900, {"a": 300, "b": 54, "new": 1000, "small": 9}), 10)
    assert (each.resident, each.live) == (200.0, 40.0)
    assert list(each.types.items()) == [("new", 100.0), ("a", 20.0)], "what is below a byte is left out"
    with pytest.raises(ValueError, match="0 things"):
        bytes_for_each(empty, empty, 0)


def test_a_histogram_of_java_has_its_total_and_classes() -> None:
    total, types = parse_histogram(HISTOGRAM)
    assert total == 1760024
    assert types == {"[B": 1440000, "org.apache.kafka.common.network.KafkaChannel": 320024}
    with pytest.raises(ValueError, match="no total"):
        parse_histogram("5931: no such process")


def test_what_the_system_does_not_allow_is_told_with_its_setting() -> None:
    limits = Limits(descriptors=20_000, memory_maps=65_530)
    assert find_obstacle("connection", 10_000, limits, keeps_logs_open=False) is None
    assert "RLIMIT_NOFILE" in (find_obstacle("connection", 20_000, limits, keeps_logs_open=False) or "")
    assert "RLIMIT_NOFILE" in (find_obstacle("topic", 20_000, limits, keeps_logs_open=True) or "")
    wide = Limits(descriptors=1 << 20, memory_maps=65_530)
    assert "vm.max_map_count" in (find_obstacle("topic", 100_000, wide, keeps_logs_open=True) or "")
    assert find_obstacle("topic", 100_000, limits, keeps_logs_open=False) is None
    assert find_obstacle("producer id", 10_000_000, limits, keeps_logs_open=True) is None


def test_an_object_that_two_refer_to_is_counted_once() -> None:
    shared = "x" * 1000
    found = bytes_by_type([[shared, shared], (shared,)])
    assert found["builtins.str"] == sys.getsizeof(shared)
    assert found["builtins.list"] == sys.getsizeof([1, 2])


def test_every_producer_of_a_request_has_a_batch_in_a_partition_of_its_own() -> None:
    (topic,) = produce_request([7, 8], 3).topic_data
    headers = [header_at(each.records) for each in topic.partition_data]
    assert [each.index for each in topic.partition_data] == [0, 1]
    assert [(each.producer_id, each.base_sequence) for each in headers if each] == [(7, 3), (8, 3)]
    assert FEW % PARTITIONS == 0, "producers are spread evenly"


def test_portions_cover_all_numbers_and_addresses_have_ports_for_theirs() -> None:
    assert list(portions(range(3, 10), 4)) == [range(3, 7), range(7, 10)]
    addresses = [local_address(number) for number in range(100_000)]
    assert max(map(addresses.count, set(addresses))) <= 28_000


def test_the_page_compares_memory_of_ours_with_live_objects_of_java() -> None:
    text = page(
        [
            result(row("kafkalite", 1000, 4000, 3000), row("kafkalite", 10_000, 8000, 3000)),
            result(
                row("Apache Kafka", 1000, 9999, 1000),
                row("Apache Kafka", 10_000, 9999, 2000),
                {"side": "Apache Kafka", "kind": "connection", "size": 100_000, "left out": "no room"},
            ),
        ]
    )
    assert "| connection | 10,000 | 8,000 | 2,000 | 4.00 |" in text
    assert "| Bytes for each | 1,000 | 10,000 | 100,000 | Growth |" in text
    assert "| kafkalite, in RAM | 4,000 | 8,000 |  | **2.00** |" in text
    assert "| kafkalite, Python objects | 3,000 | 3,000 |  | 1.00 |" in text
    assert "100,000 at Apache Kafka are left out: no room." in text
    assert "- kafkalite, bytes by type at 10,000: `dict` 300, `TCPTransport` 200, `byte[]` 9, `Object[]` 8." in text
    assert "`max.connections=5`" in text and "0.5 to 2.0" in text


def test_what_only_one_side_has_is_compared_with_nothing() -> None:
    text = page([result(row("kafkalite", 1000, 4000, 3000, "topic"))])
    assert "| topic | 1,000 |" not in text and "| kafkalite, in RAM | 4,000 |  |" in text


def test_every_kind_is_explained() -> None:
    assert set(CAUSES) == set(KINDS)


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps(result(row("kafkalite", 1000, 4000, 3000))))
    done = CliRunner().invoke(main, [str(tmp_path / "r.json"), "--output", str(tmp_path / "M.md")])
    assert done.exit_code == 0 and (tmp_path / "M.md").read_text().startswith("# Memory of each thing")
