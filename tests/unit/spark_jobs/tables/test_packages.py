"""Which package a Spark needs for a table format, and what users are told where there is none."""

from __future__ import annotations

import pytest

from spark_jobs.batch.failures import BadRequestError
from spark_jobs.tables.packages import DELTA, ICEBERG, JARS, PACKAGES, PARQUET, missing_package_text, session_settings

EXTENSIONS = "spark.sql.extensions"


def test_parquet_needs_nothing() -> None:
    assert session_settings(PARQUET, "9.9.9", {"a": "b"}) == {"a": "b"}


def test_the_package_is_that_of_the_minor_release() -> None:
    found = session_settings(ICEBERG, "4.1.3", {})
    assert found[PACKAGES] == "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
    assert found[EXTENSIONS] == "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    assert session_settings(DELTA, "4.0.0", {})[PACKAGES] == "io.delta:delta-spark_2.13:4.0.0"


def test_a_spark_without_a_known_package_is_told_of_those_with_one() -> None:
    with pytest.raises(BadRequestError) as problem:
        session_settings(DELTA, "4.3.0", {})
    text = str(problem.value)
    assert "no package of Delta Lake is known for Spark 4.3.0" in text
    assert "io.delta:delta-spark_2.13:4.0.0 for Spark 4.0" in text
    assert "--conf spark.jars.packages=GROUP:NAME:VERSION" in text


@pytest.mark.parametrize("name", [JARS, PACKAGES, "spark.driver.extraClassPath"])
def test_what_the_user_names_is_taken_for_any_spark(name: str) -> None:
    found = session_settings(DELTA, "4.3.0", {name: "mine"})
    assert {key: value for key, value in found.items() if key in (JARS, PACKAGES, name)} == {name: "mine"}


def test_an_empty_package_says_that_spark_has_the_classes() -> None:
    assert PACKAGES not in session_settings(ICEBERG, "4.3.0", {PACKAGES: ""})


def test_extensions_of_the_user_stay() -> None:
    found = session_settings(DELTA, "4.0.0", {EXTENSIONS: "mine.Extension, io.delta.sql.DeltaSparkSessionExtension"})
    assert found[EXTENSIONS] == "mine.Extension,io.delta.sql.DeltaSparkSessionExtension"
    both = session_settings(ICEBERG, "4.0.0", found)
    assert both[EXTENSIONS].endswith(",org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")


def test_the_catalog_of_the_user_stays() -> None:
    catalog = "spark.sql.catalog.spark_catalog"
    assert session_settings(DELTA, "4.0.0", {catalog: "mine.Catalog"})[catalog] == "mine.Catalog"


def test_missing_classes_are_told_with_all_ways_to_get_them() -> None:
    text = missing_package_text(ICEBERG, {PACKAGES: "org.apache.iceberg:wrong:1"})
    assert "does not find Iceberg (org.apache.iceberg.spark.SparkCatalog) in org.apache.iceberg:wrong:1" in text
    for way in ("--conf spark.jars.packages=", "--conf spark.jars=", "--packages", "--jars"):
        assert way in text
