"""Tables of results for people."""

from __future__ import annotations

import pytest

from spark_jobs.report import write_rows


def test_numbers_are_aligned_at_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"topic": "t", "records": 12345, "late": None}, {"topic": "flights", "records": 7, "late": 3}]
    write_rows(rows, "table", ("topic", "records", "late"))
    assert capsys.readouterr().out.splitlines() == [
        "TOPIC    RECORDS  LATE",
        "t          12345     -",
        "flights        7     3",
    ]
