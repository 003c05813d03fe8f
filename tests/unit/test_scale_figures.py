"""The figures of the bench of many partitions, of listings and answers that a test makes up; no processes."""

from __future__ import annotations

import cProfile
import gc
import io
import pstats

from rich.console import Console

from tests.bench.idle_topics import PORTION, Shape, assignments, requests_for
from tests.bench.profiled_broker import known_objects, most_expensive
from tests.bench.scale import figures_of_row, groups_of, table_of
from tests.bench.scale_figures import (
    Costs,
    Flow,
    View,
    bytes_sent,
    difference,
    figures_of,
    for_one,
    sample_of,
    sent_between,
    view_of,
    zookeeper_counts,
)
from tests.bench.scale_rounds import memory
from tests.bench.stand_in_frames import Tally
from tests.bench.stand_ins import received

LISTING = """\
ESTAB 0      0               127.0.0.1:55704          127.0.0.1:9092  users:(("kafkalite",pid=22,fd=21)) bbr rto:212 bytes_sent:1724836
ESTAB 0      0               127.0.0.1:55705          127.0.0.1:9093  users:(("kafkalite",pid=22,fd=22)) bbr rto:212 bytes_received:7
ESTAB 0      0               127.0.0.1:9092           127.0.0.1:55704 users:(("kafkalite",pid=23,fd=9)) bbr bytes_sent:55
ESTAB 0      0               127.0.0.1:55710          127.0.0.1:90920 users:(("kafkalite",pid=22,fd=23)) bbr bytes_sent:77
ESTAB 0      0               127.0.0.1:55711          127.0.0.1:9092
SYN-SENT 0   1               127.0.0.1:55712          127.0.0.1:9092  users:(("kafkalite",pid=22,fd=24)) bbr bytes_sent:88
"""


def test_bytes_are_counted_by_process_and_connection() -> None:
    found = bytes_sent(LISTING, [9092, 9093])
    first, second = Flow(22, "127.0.0.1:55704", "127.0.0.1:9092"), Flow(22, "127.0.0.1:55705", "127.0.0.1:9093")
    assert found == {first: 1_724_836, second: 0}


def test_a_process_has_sent_what_its_connections_have_more() -> None:
    kept, closed, opened = Flow(1, "a", "x"), Flow(1, "b", "x"), Flow(1, "c", "x")
    other, own = Flow(2, "d", "x"), Flow(1, "e", "127.0.0.1:9092")
    assert sent_between({kept: 10, closed: 50, other: 5}, {kept: 15, opened: 7, other: 100, own: 9}, 1, 9092) == 12


def test_counts_of_servers_are_summed_but_znodes_and_transactions() -> None:
    first = "zk_packets_received\t10\nzk_cnt_readlatency\t4\nzk_znode_count\t28\nzk_version\t3.9.5--1, built on 2026\n"
    second = "zk_packets_received\t5.0\nzk_znode_count\t27\n"
    counts = zookeeper_counts([(first, "Mode: leader\nZxid: 0x10000002a\n"), (second, "Zxid: 0x100000029\n"), ("", "")])
    assert counts["packets received"] == 15
    assert counts["reads"] == 4
    assert counts["znodes"] == 28
    assert counts["transactions"] == 42
    assert counts["writes"] == 0
    assert difference({"reads": 3}, {"reads": 4, "writes": 2}) == {"reads": 1, "writes": 2}


def test_a_view_counts_what_is_true_of_partitions() -> None:
    partitions = [
        (1, [1, 2, 3], [1, 2, 3]),  # 3 is dead, and still in sync beside others
        (2, [1, 2, 3], [2, 1]),
        (2, [3, 2, 1], [3, 2]),
        (3, [3, 1, 2], [3]),
        (-1, [3], [3]),  # the last one in sync stays in it
    ]
    assert view_of(partitions, [1, 2]) == View(partitions=5, led=3, preferred=2, in_sync=2, held=3, lost=1)
    assert view_of([], [1]) == View()


def test_a_sample_has_the_last_topic() -> None:
    names = [f"idle-{number}" for number in range(1000)]
    sample = sample_of(names)
    assert len(sample) == 4
    assert sample[0] == "idle-999"
    assert sample_of(names[:3]) == ["idle-2", "idle-1", "idle-0"]


def test_replicas_stand_at_the_brokers_in_turn() -> None:
    placed = assignments(Shape(5, factor=2, per_topic=3), [7, 8, 9])
    assert placed == {"idle-0": [[7, 8], [8, 9], [9, 7]], "idle-1": [[7, 8], [8, 9]]}


def test_a_request_creates_as_many_topics_as_have_a_portion_of_partitions() -> None:
    requests = requests_for(assignments(Shape(2 * PORTION + 50, 1, 100), [1]))
    assert [sum(topic.num_partitions for topic in each) for each in requests] == [PORTION, PORTION, 50]
    (only,) = requests_for(assignments(Shape(PORTION * 3, 1, PORTION * 3), [1]))
    assert only[0].num_partitions == PORTION * 3
    assert requests_for({}) == []


def test_memory_is_that_of_all_and_what_partitions_added() -> None:
    assert memory({1: 50, 2: 60}, {1: 70, 2: 65}, controller=2) == {"together": 135, "controller": 65, "added": 25}


def test_figures_of_a_step_are_those_that_are_there() -> None:
    costs = Costs(2.0, {}, {1: 0.5, 2: 0.25}, 2, 3_000_000, {"packets received": 40})
    assert figures_of("takeover", costs) == {
        "takeover, s": 2.0,
        "takeover, processor of all brokers, s": 0.75,
        "takeover, processor of the controller, s": 0.25,
        "takeover, sent by the controller, MB": 3.0,
        "takeover, ZooKeeper packets": 40.0,
    }


def test_a_cost_that_grows_faster_than_its_work_is_named() -> None:
    rows = [
        {"side": "ours", "factor": 3, "stand-ins": 0, "partitions": size, "figures": figures}
        for size, figures in (
            (100, {"even, s": 1.0, "uneven, s": 1.0}),
            (1000, {"even, s": 10.0, "uneven, s": 16.0, "new, s": 1.0}),
        )
    ]
    (group,) = groups_of(rows).values()
    by_size = {size: figures_of_row(row) for size, row in group.items()}
    assert for_one(by_size)["uneven, s"] == {100: 0.01, 1000: 0.016}
    written = io.StringIO()
    Console(width=200, file=written).print(table_of(group, "ours"))
    lines = {line.split("  ")[0]: line for line in map(str.strip, written.getvalue().splitlines())}
    assert "1.60, faster than its work" in lines["uneven, s"]
    assert "faster" not in lines["even, s"]
    assert "1.00" in lines["even, s"]
    assert "10,000.0 µs" in lines["even, s"]


def test_what_is_most_expensive_is_first_by_its_own_time() -> None:
    profiler = cProfile.Profile()
    profiler.runcall(sum, range(100_000))
    assert "sum" in most_expensive(pstats.Stats(profiler), 1)[0].function


def test_objects_are_counted_once_their_garbage_is_gone() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    gc.collect()
    kept = [Cycle() for _ in range(10)]
    del kept[:5]
    found = known_objects()
    assert found["garbage"] >= 5
    assert found["objects"] >= sum(found["types"].values()) > 0


def test_what_stand_ins_got_is_summed() -> None:
    tallies = {
        1: Tally({"UPDATE_METADATA": 2}, {"UPDATE_METADATA": 100}),
        2: Tally({"UPDATE_METADATA": 1, "LEADER_AND_ISR": 1}, {"UPDATE_METADATA": 50, "LEADER_AND_ISR": 10}),
        3: Tally(),
    }
    assert received(tallies) == {
        "requests": {"UPDATE_METADATA": 3, "LEADER_AND_ISR": 1},
        "bytes": {"UPDATE_METADATA": 150, "LEADER_AND_ISR": 10},
        "bytes to one": [0, 60, 100],
    }


def test_a_death_tells_also_when_all_partitions_were_led() -> None:
    figures = figures_of("death", Costs(2.0, {"led": 0.5}))
    assert figures == {"death, s": 2.0, "death until all are led, s": 0.5}


def test_a_sample_has_the_last_topic_in_order_too() -> None:
    names = [f"idle-{number}" for number in range(200)]
    assert {"idle-199", "idle-99"} <= set(sample_of(names))
    assert sample_of([]) == []
