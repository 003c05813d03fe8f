"""The options of `python -m spark_jobs`, and what their values mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from spark_jobs.batch.failures import BadRequestError
from spark_jobs.batch.window import parse_date, time_zone
from spark_jobs.report import FORMATS
from spark_jobs.tables.packages import FORMATS as TABLE_FORMATS

if TYPE_CHECKING:
    from spark_jobs.batch.formats import Format, Formats
    from spark_jobs.jobs.compact import Compaction
    from spark_jobs.jobs.nightly import Program
    from spark_jobs.jobs.reprocess import Reprocessing
    from spark_jobs.registry.client import Registry

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_USER_INFO_VARIABLE = "KAFKALITE_SCHEMA_REGISTRY_USER_INFO"


def options(*options: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    def decorate(function: Decorated) -> Decorated:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


TABLE_FORMAT = click.option(
    "--table-format",
    type=click.Choice(TABLE_FORMATS),
    help="What the output consists of. [default: what it has; parquet, if it is new]",
)
PLACES = options(
    click.option("--topic", "topics", multiple=True, required=True, help="A topic; may be repeated."),
    TABLE_FORMAT,
    click.option(
        "--output", required=True, metavar="FOLDER", help="Where everything goes; a path or a URI that Spark knows."
    ),
    click.option(
        "-b",
        "--bootstrap-server",
        envvar="KAFKALITE_BOOTSTRAP_SERVERS",
        default="localhost:9092",
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT,...",
        help="Brokers to begin with.",
    ),
    click.option(
        "-X",
        "kafka_settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="A setting of the Kafka client, like security.protocol=SSL.",
    ),
)
MAINTAINED = options(
    click.option("--output", required=True, metavar="FOLDER", help="The output folder of the jobs."),
    TABLE_FORMAT,
    click.option(
        "--compact-files/--no-compact-files",
        "compacts",
        default=True,
        show_default=True,
        help="Put small files of a date together.",
    ),
    click.option(
        "--target-file-bytes",
        type=click.IntRange(1024 * 1024),
        default=512 * 1024 * 1024,
        show_default=True,
        help="Of compacted files.",
    ),
    click.option(
        "--expire/--no-expire",
        "expires",
        default=True,
        show_default=True,
        help="Remove what only states of the tables before --retain-days need.",
    ),
    click.option(
        "--retain-days",
        type=click.IntRange(1),
        default=7,
        show_default=True,
        help="Longer than any reader takes; older states cannot be read any more.",
    ),
    click.option("--dry-run", is_flag=True, help="Only say what would be done."),
)
LOCK = options(
    click.option(
        "-z",
        "--zookeeper",
        envvar="KAFKALITE_ZOOKEEPER",
        default="localhost:2181",
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT,.../CHROOT",
        help="ZooKeeper, whose lock keeps two runs on one output apart.",
    ),
    click.option("--no-lock", is_flag=True, help="Take no lock: nothing else can run on this output."),
    click.option("--wait", "wait_s", type=float, default=0.0, metavar="SECONDS", help="Wait for another run to end."),
)
SESSION = options(
    click.option("--master", metavar="URL", help="Spark's master. [default: local[*], or what spark-submit was told]"),
    click.option("--conf", "spark_settings", multiple=True, metavar="KEY=VALUE", help="A setting of Spark."),
    click.option(
        "--spark-log-level",
        type=click.Choice(("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG")),
        default="FATAL",
        show_default=True,
        help="What Spark says on stderr; errors that end a job are told in any case.",
    ),
)
SPARK = options(
    SESSION,
    click.option("--time-zone", default="UTC", show_default=True, help="Where days begin."),
    click.option(
        "--rows-per-task", type=click.IntRange(1), default=250_000, show_default=True, help="Offsets that fill a task."
    ),
    click.option(
        "--bytes-per-task",
        type=click.IntRange(1),
        default=128 * 1024 * 1024,
        show_default=True,
        help="Bytes of the log that fill a task before so many offsets do.",
    ),
    click.option(
        "--max-file-bytes",
        type=click.IntRange(1),
        default=128 * 1024 * 1024,
        show_default=True,
        help="Of records in a file of the archive.",
    ),
    click.option(
        "--fail-on-data-loss/--no-fail-on-data-loss",
        default=True,
        show_default=True,
        help="End when offsets are gone by retention, or go on with what is left.",
    ),
    click.option(
        "--group-prefix",
        default="kafkalite-",
        show_default=True,
        help="Of the consumer groups that show how far jobs are.",
    ),
)
FORMATS_OF_RECORDS = options(
    *(
        click.option(
            f"--{part}-format",
            type=click.Choice(("bytes", "string", "json", "msgpack", "avro", "protobuf", "json-schema")),
            default="bytes",
            show_default=True,
            help=f"How {part}s are decoded; avro, protobuf and json-schema: in the wire format of a schema registry.",
        )
        for part in ("key", "value")
    ),
    *(
        click.option(
            f"--{part}-schema",
            metavar="SCHEMA",
            help="Of objects, fields like 'carrier string, dep_delay int', or @file. Of a schema registry, the schema to read "
            "with: latest (the default), the number of a version, or @file.",
        )
        for part in ("key", "value")
    ),
    *(
        click.option(
            f"--{part}-subject",
            metavar="SUBJECT,...",
            help=f"Subjects in the schema registry, instead of the topic's name and -{part}.",
        )
        for part in ("key", "value")
    ),
    *(
        click.option(
            f"--{part}-message",
            metavar="NAME",
            help="Of protobuf, the full name of the message, if not the first of the schema.",
        )
        for part in ("key", "value")
    ),
    click.option(
        "--schema-registry",
        envvar="KAFKALITE_SCHEMA_REGISTRY",
        show_envvar=True,
        metavar="URL",
        help="The schema registry, like http://localhost:8081.",
    ),
    click.option(
        "--schema-registry-user-info",
        metavar="FILE",
        help="A file with user:password for the schema registry. [or env var: KAFKALITE_SCHEMA_REGISTRY_USER_INFO]",
    ),
    click.option(
        "--schema-registry-ca",
        metavar="FILE",
        help="Certificates (PEM) that sign the schema registry's, if not the system's.",
    ),
    click.option(
        "--dead-letters-allowed",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="With more records that cannot be decoded the exit code is 10; all is done nevertheless.",
    ),
)
TRANSFORM = options(
    click.option("--transform", metavar="MODULE:FUNCTION", help="What makes another DataFrame of a day's records."),
    click.option("--name", help="Of the transform's result. [default: the function's name]"),
    click.option("--to-topic", metavar="TOPIC", help="Send the result's rows to this topic."),
    click.option("--to-parquet/--no-to-parquet", default=True, show_default=True),
)
COMPACTION = click.option(
    "--latest-by",
    type=click.Choice(("offset", "timestamp")),
    default="offset",
    show_default=True,
    help="Which record of a key is its latest.",
)
AUDIT = click.option(
    "--audit/--no-audit", "audits", default=True, show_default=True, help="Compare log and archive at the end."
)
LEDGER_KEY = click.option(
    "--ledger-key",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="An Ed25519 key in PEM: note digests of what is archived in the ledger, and sign its entries, for `verify`.",
)
OUTPUT = click.option(
    "-o", "report", type=click.Choice(FORMATS), default="table", show_default=True, help="How results are printed."
)
DATE = click.option(
    "--date",
    "day",
    default="yesterday",
    show_default=True,
    metavar="YYYY-MM-DD",
    help="The day; also today, yesterday.",
)
REFRESH = click.option(
    "--refresh", is_flag=True, help="Plan a date again that was planned before: up to the log's end now."
)


def day(text: str, zone: str) -> date:
    from spark_jobs.batch.night import now_ms

    return parse_date(text, now_ms(), time_zone(zone))


def program(options: Mapping[str, Any]) -> Program:
    from spark_jobs.jobs.nightly import Program

    return Program(
        formats(options),
        reprocessing(options),
        compaction(options) if options["compaction"] else None,
        options["audits"],
        options["dead_letters_allowed"],
    )


def formats(options: Mapping[str, Any]) -> Formats:
    """Return how keys and values are decoded; what is wrong with schemas of a registry is told here. BadRequestError, RegistryError."""
    from spark_jobs.batch.formats import Formats

    registry = _registry(options)
    found = Formats(*(_format(options, part, registry) for part in ("key", "value"))).validate()
    for topic in options["topics"]:
        found.check_topic(topic)
    return found


def _format(options: Mapping[str, Any], part: str, registry: Registry | None) -> Format:
    from spark_jobs.batch.formats import Format
    from spark_jobs.registry.lookup import LATEST, REGISTRY_FORMATS, Choice, Lookup

    name, schema, subject, message = (options[f"{part}_{what}"] for what in ("format", "schema", "subject", "message"))
    if name not in REGISTRY_FORMATS:
        for option, value in (("subject", subject), ("message", message)):
            if value is not None:
                raise BadRequestError(
                    f"--{part}-{option} is for formats of a schema registry, not for {name}: leave it out"
                )
        return Format(name, _schema(schema))
    if registry is None:
        raise BadRequestError(f"the format {name} needs --schema-registry URL")
    return Format(name, lookup=Lookup(Choice(part, name, schema or LATEST, subject, message), registry))


def _registry(options: Mapping[str, Any]) -> Registry | None:
    from spark_jobs.registry.client import Registry, RegistryOptions

    url, ca_file = options["schema_registry"], options["schema_registry_ca"]
    if url is None:
        return None
    user_info = os.environ.get(_USER_INFO_VARIABLE)
    if (file := options["schema_registry_user_info"]) is not None:
        user_info = _read_text(file, "--schema-registry-user-info")
    if ca_file is not None:
        _read_text(ca_file, "--schema-registry-ca")
    try:
        return Registry(RegistryOptions(url, user_info, ca_file))
    except ValueError as problem:
        raise BadRequestError(f"--schema-registry: {problem}") from None


def _read_text(file: str, option: str) -> str:
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise BadRequestError(f"{option}: cannot read {file}: {problem}") from None


def _schema(text: str | None) -> str | None:
    if text is None or not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise BadRequestError(f"cannot read the schema {text[1:]}: {problem}") from None


def reprocessing(options: Mapping[str, Any]) -> Reprocessing | None:
    from spark_jobs.jobs.reprocess import Reprocessing, load_function

    function = options["transform"]
    if function is None:
        return None
    load_function(function)  # a name that is wrong is told before anything is done
    name = options["name"] or function.rpartition(":")[2]
    if "/" in name or name.startswith("."):
        raise BadRequestError(
            f"--name {name!r} is to be a folder below the output: give one without slashes and leading dots"
        )
    if not options["to_parquet"] and options["to_topic"] is None:
        raise BadRequestError("the transform's result goes nowhere: give --to-topic, or leave --to-parquet on")
    return Reprocessing(name, function, options["to_parquet"], options["to_topic"])


def compaction(options: Mapping[str, Any]) -> Compaction:
    from spark_jobs.jobs.compact import Compaction

    return Compaction(options["latest_by"])


def pairs(given: tuple[str, ...], option: str) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadRequestError(f"{option} {text!r} is not like key=value")
        found[name] = value
    return found
