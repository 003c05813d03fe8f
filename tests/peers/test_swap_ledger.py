"""The judge of tests/peers/test_swap_under_load.py finds what was lost, doubled, reordered or refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkalite.types import TopicPartition
from tests.peers.swap_ledger import ACKS, IDEMPOTENT, TRANSACTIONAL, Record, find_problems, parse_ledger

Lines = list[str]
Content = dict[TopicPartition, list[Record]]
Counts = dict[str, list[int]]
WRITTEN: Content = {
    TopicPartition(ACKS, 0): [(0, "0"), (1, "3"), (2, "3"), (3, "6")],
    TopicPartition(IDEMPOTENT, 1): [(0, "1"), (1, "4"), (2, "7")],
    TopicPartition(TRANSACTIONAL, 2): [(0, "0:2"), (4, "2:8")],
}
"""Of the first, what was sent twice is there twice; of the last, transaction 1 was aborted."""


def lines_of(content: Content) -> Lines:
    lines = [
        f"{kind} {place.topic} {place.partition} {offset} {value}\n"
        for kind in ("acked", "read consumer-1")
        for place, records in content.items()
        for offset, value in records
    ]
    lines += ["committed 0\n", "aborted 1\n", "acked transactional 2 2 1:5\n", "committed 2\n"]
    lines += ["state RUNNING\n", "produced\n"]
    return [each for each in lines if each != "acked acks 0 1 3\n"]


def counts_of() -> Counts:
    return {"key-1": [1], "key-4": [1], "key-0": [1]}


def test_what_was_acknowledged_and_is_there_is_no_problem() -> None:
    lines = [*lines_of(WRITTEN), "read consumer-2 acks 0 1 3\n", "error cut"]
    ledger = parse_ledger(lines)
    assert find_problems(ledger, WRITTEN, counts_of()) == []
    assert (ledger.count_acked(ACKS), ledger.count_read(), ledger.ended) == (3, 10, ["produced"])


def lose(lines: Lines, content: Content, counts: Counts) -> None:
    content[TopicPartition(IDEMPOTENT, 1)].pop()
    lines.remove("read consumer-1 idempotent 1 2 7\n")


def double(lines: Lines, content: Content, counts: Counts) -> None:
    content[TopicPartition(IDEMPOTENT, 1)].append((3, "7"))
    lines.append("read consumer-1 idempotent 1 3 7\n")


def reorder(lines: Lines, content: Content, counts: Counts) -> None:
    content[TopicPartition(ACKS, 0)].append((4, "4"))
    lines.append("read consumer-1 acks 0 4 4\n")


def show_aborted(lines: Lines, content: Content, counts: Counts) -> None:
    content[TopicPartition(TRANSACTIONAL, 2)].insert(1, (2, "1:5"))
    lines[lines.index("read consumer-1 transactional 2 4 2:8\n")] = "read consumer-1 transactional 2 2 1:5\n"
    lines.append("read consumer-1 transactional 2 4 2:8\n")


def leave_unread(lines: Lines, content: Content, counts: Counts) -> None:
    lines.remove("read consumer-1 acks 0 2 3\n")


def refuse(lines: Lines, content: Content, counts: Counts) -> None:
    lines.append("error acks TimeoutException\n")


def stop_counting(lines: Lines, content: Content, counts: Counts) -> None:
    lines.append("state ERROR\n")


def count_twice(lines: Lines, content: Content, counts: Counts) -> None:
    counts["key-4"] = [1, 2]


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lose, "idempotent-1: 7 was acknowledged at offset 2, where nothing is"),
        (double, "idempotent-1: 7 stands behind 7"),
        (reorder, "acks-0: 4 stands behind 6"),
        (show_aborted, "transactional-2: 1:5 was acknowledged at offset 2, where 1:5 is"),
        (
            leave_unread,
            "acks-0: the group read other records than there are, or in another order; 1 left out: [(2, '3')]",
        ),
        (refuse, "error: acks TimeoutException"),
        (stop_counting, "Kafka Streams is ERROR"),
        (count_twice, "key-4 was counted to 2 in 2 records, and is there 1 times"),
    ],
)
def test_what_went_wrong_is_named(spoil: Callable[[Lines, Content, Counts], None], problem: str) -> None:
    lines, content, counts = lines_of(WRITTEN), {place: list(some) for place, some in WRITTEN.items()}, counts_of()
    spoil(lines, content, counts)
    assert find_problems(parse_ledger(lines), content, counts) == [problem]
