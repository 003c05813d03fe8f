"""What doctor makes of open transactions, which committed reads wait for, and of groups that are behind."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner, Result

from kafkalite.cli.doctor import groups, transactions
from kafkalite.cli.doctor.findings import Finding
from kafkalite.cli.main import main
from kafkalite.client import HangingTransaction, ProducerState, TransactionDescription
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import FakeCluster

NOW_MS = 1_700_000_000_000
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *arguments])


def described(state: str, age_ms: int, *partitions: TopicPartition) -> TransactionDescription:
    return TransactionDescription("payments", 1, state, 5, 0, 900_000, NOW_MS - age_ms, partitions)


def row(partition: TopicPartition, committed: int | None, end: int, owner: str | None = "m") -> dict[str, Any]:
    lag = None if committed is None else end - committed
    return {**partition._asdict(), "committed_offset": committed, "end_offset": end, "lag": lag, "owner": owner}


def list_findings(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(str(each.status), each.found) for each in findings]


def test_short_transactions_are_no_finding() -> None:
    found = transactions.judge([described("Ongoing", 59_000, T0), described("CompleteCommit", 99_000)], [], NOW_MS)
    assert list_findings(found) == [("ok", "none hangs, and none is open for more than a minute")]


def test_a_long_transaction_is_a_warning_that_says_who_ends_it() -> None:
    (found,) = transactions.judge([described("Ongoing", 120_000, T1, T0)], [], NOW_MS)
    assert list_findings([found]) == [("warning", "payments is Ongoing since 2023-11-14T22:11:20.000Z in t-0, t-1")]
    assert found.remedy is not None and found.remedy.endswith("after its transaction.timeout.ms (900000 ms)")


def test_an_end_that_cannot_be_written_is_a_problem() -> None:
    (found,) = transactions.judge([described("PrepareCommit", 120_000, T0)], [], NOW_MS)
    assert list_findings([found]) == [("problem", "payments is PrepareCommit since 2023-11-14T22:11:20.000Z in t-0")]
    assert found.remedy is not None and "kafkalite topic describe --unavailable" in found.remedy


def test_a_hanging_transaction_is_a_problem_with_the_command_that_ends_it() -> None:
    hanging = HangingTransaction(T1, ProducerState(7, 0, -1, 3, NOW_MS - 3_600_000, 42))
    (found,) = transactions.judge([], [hanging], NOW_MS)
    assert list_findings([found]) == [
        (
            "problem",
            "t-1: no coordinator will end the transaction of producer 7 that is open since offset 42, "
            "last written at 2023-11-14T21:13:20.000Z",
        )
    ]
    assert found.remedy is not None and found.remedy.endswith("kafkalite transaction abort t-1 --start-offset 42")


def test_groups_that_keep_up_are_one_line() -> None:
    found = groups.judge({"a": [row(T0, 10, 10), row(T1, 5, 8)], "b": []}, {T1: 0}, 10_000)
    assert list_findings(found) == [("ok", "2 groups, 3 records behind in all")]
    assert list_findings(groups.judge({}, {}, 10_000)) == [("ok", "0 groups, 0 records behind in all")]


def test_a_group_without_members_that_is_behind_is_a_warning() -> None:
    rows = [row(T0, 4, 10, None), row(T1, 10, 10, None)]
    (found,) = groups.judge({"old": rows}, {T0: 0}, 10_000)
    assert list_findings([found]) == [("warning", "old has no members, and is 6 records behind in t-0")]
    assert found.remedy is not None and found.remedy.endswith("kafkalite group delete old")
    (found,) = groups.judge({"old": rows}, {T0: 5}, 10_000)
    assert list_findings([found])[0][1].endswith("behind in t-0; retention has deleted some of them"), (
        "who reads nothing lost nothing"
    )


def test_records_that_retention_took_from_a_group_are_a_problem() -> None:
    (found,) = groups.judge({"slow": [row(T0, 4, 10), row(T1, 10, 10)]}, {T0: 5}, 10_000)
    assert list_findings([found]) == [("problem", "slow: records of t-0 were deleted before they were read")]
    assert groups.judge({"slow": [row(T0, 4, 10)]}, {T0: 4}, 10_000)[0].remedy is None, "the next one is still there"


def test_a_partition_that_no_member_reads_is_a_warning() -> None:
    (found,) = groups.judge({"g": [row(T0, 10, 10), row(T1, 8, 10, None)]}, {T1: 0}, 10_000)
    assert list_findings([found]) == [("warning", "g: no member reads t-1")]
    assert found.remedy is not None and found.remedy.endswith("kafkalite group members g")


def test_a_large_lag_is_a_warning_that_names_the_worst_partition() -> None:
    rows = [row(T0, 0, 300), row(T1, 0, 701)]
    (found,) = groups.judge({"g": rows}, {T0: 0, T1: 0}, 1000)
    assert list_findings([found]) == [("warning", "g is 1001 records behind, 701 of them in t-1")]
    assert found.remedy is not None and "kafkalite group describe g" in found.remedy and "up to 2" in found.remedy
    assert list_findings(groups.judge({"g": rows}, {T0: 0, T1: 0}, 1001)) == [
        ("ok", "1 group, 1001 records behind in all")
    ]


def test_what_brokers_do_not_answer_is_skipped(cluster: FakeCluster) -> None:
    cluster.unreachable = {1, 2}
    result = call("--only", "transactions", "--only", "groups", "--timeout", "1", "-o", "csv", "--no-headers")
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        ["transactions,skipped,no broker can be reached,", "groups,skipped,no broker can be reached,"],
    )
