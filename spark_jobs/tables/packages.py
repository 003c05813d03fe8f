"""Which packages of Maven a Spark needs for a table format, and the settings of its session. Pure.

Each release of Delta Lake and Iceberg is built for some minor releases of Spark and works with no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spark_jobs.batch.failures import BadRequestError

PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
FORMATS: Final = (PARQUET, DELTA, ICEBERG)

JARS, PACKAGES = "spark.jars", "spark.jars.packages"
_EXTENSIONS, _CATALOG = "spark.sql.extensions", "spark.sql.catalog.spark_catalog"
_SOURCES: Final = (JARS, PACKAGES, "spark.driver.extraClassPath")
"""Settings by which the user says where the classes are; an empty text says that Spark has them."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a table format needs of Spark: a package for each minor release, settings, and a class that shows that it is there."""

    title: str
    by_spark: Mapping[str, str]
    settings: Mapping[str, str]
    proof: str


NEEDS: Final[Mapping[str, Needs]] = {
    DELTA: Needs(
        "Delta Lake",
        {"4.0": "io.delta:delta-spark_2.13:4.0.0", "4.1": "io.delta:delta-spark_4.1_2.13:4.3.1"},
        {
            _EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
            _CATALOG: "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
        "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    ),
    ICEBERG: Needs(
        "Iceberg",
        {
            "4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
            "4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        },
        {_EXTENSIONS: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
        "org.apache.iceberg.spark.SparkCatalog",
    ),
}


def session_settings(table_format: str, spark_version: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session that writes the format; `given` are the user's, which win.

    BadRequestError when no package is known for this Spark and the user names none.
    """
    if table_format == PARQUET:
        return dict(given)
    needs, found = NEEDS[table_format], dict(given)
    if not any(name in given for name in _SOURCES):
        found[PACKAGES] = _known_package(table_format, spark_version)
    elif not given.get(PACKAGES, "unset"):
        del found[PACKAGES]
    for name, value in needs.settings.items():
        if name == _EXTENSIONS:
            named = [each.strip() for each in given.get(name, "").split(",") if each.strip()]
            found[name] = ",".join(dict.fromkeys([*named, value]))
        else:
            found.setdefault(name, value)
    return found


def _known_package(table_format: str, spark_version: str) -> str:
    needs, minor = NEEDS[table_format], ".".join(spark_version.split(".")[:2])
    if (package := needs.by_spark.get(minor)) is None:
        known = ", ".join(f"{package} for Spark {spark}" for spark, package in needs.by_spark.items())
        raise BadRequestError(
            f"--table-format {table_format}: no package of {needs.title} is known for Spark {spark_version}; install a Spark that one is "
            f"known for ({known}), or name another by --conf {PACKAGES}=GROUP:NAME:VERSION"
        )
    return package


def missing_package_text(table_format: str, settings: Mapping[str, str]) -> str:
    """Return what to say when Spark's Java does not have the classes of the format, or could not be started with its package."""
    needs = NEEDS[table_format]
    wanted = settings.get(PACKAGES) or settings.get(JARS) or "none"
    return (
        f"--table-format {table_format}: Spark does not find {needs.title} ({needs.proof}) in {wanted}. Packages come from Maven Central "
        f"by --conf {PACKAGES}={next(iter(needs.by_spark.values()))} (that of your Spark); without a network, give files by "
        f"--conf {JARS}=FILE.jar,FILE.jar; to spark-submit, which starts Java before this program, by --packages or --jars"
    )
