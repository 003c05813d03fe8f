"""An output has one format: that of its first night."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from spark_jobs.batch import layout
from spark_jobs.batch.failures import BadRequestError, OutputError
from spark_jobs.batch.storage import LocalStorage
from spark_jobs.tables.recorded_format import choose_format, record_format


def test_a_new_output_has_what_is_asked_for_and_parquet_otherwise(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    assert choose_format(storage, None) == "parquet"
    assert choose_format(storage, "iceberg") == "iceberg"
    record_format(storage, "parquet")
    assert list(tmp_path.iterdir()) == []


def test_later_nights_have_the_format_of_the_first(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    record_format(storage, "delta")
    assert choose_format(storage, None) == choose_format(storage, "delta") == "delta"
    with pytest.raises(BadRequestError, match=r"--table-format iceberg: .* has nights as delta; leave the option out"):
        choose_format(storage, "iceberg")


def test_an_output_with_nights_and_no_record_has_parquet(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.write(layout.done_file("archive", "t", date(2013, 6, 15)), b"{}")
    assert choose_format(storage, None) == "parquet"
    with pytest.raises(BadRequestError, match="has nights as parquet"):
        choose_format(storage, "delta")


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"table_format": "hudi"}'])
def test_a_record_that_says_nothing_is_told(tmp_path: Path, text: bytes) -> None:
    storage = LocalStorage(tmp_path)
    storage.write(layout.TABLE_FORMAT, text)
    with pytest.raises(OutputError, match="names no table format; write one of parquet, delta, iceberg there"):
        choose_format(storage, None)
