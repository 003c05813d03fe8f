"""The options of `kafka-console-consumer`, which of them go together, and the settings of the consumer that they give."""

from __future__ import annotations

import random
import sys
from typing import Final

from kafkalite.legacy.cluster.client_settings import key_values, properties_of
from kafkalite.legacy.command_line.option_parser import Options, declared_options, flag, integer, long, text

HEADLINE: Final = "This tool helps to read data from Kafka topics and outputs it to standard output."

TOPIC: Final = text("topic")
WHITELIST: Final = text("whitelist")
INCLUDE: Final = text("include")
PARTITION: Final = integer("partition")
OFFSET: Final = text("offset", "latest")
CONSUMER_PROPERTY: Final = text("consumer-property")
CONSUMER_CONFIG: Final = text("consumer.config")
FORMATTER: Final = text("formatter", "org.apache.kafka.tools.consumer.DefaultMessageFormatter")
PROPERTY: Final = text("property")
FORMATTER_CONFIG: Final = text("formatter-config")
FROM_BEGINNING: Final = flag("from-beginning")
MAX_MESSAGES: Final = integer("max-messages")
TIMEOUT_MS: Final = long("timeout-ms")
SKIP_ON_ERROR: Final = flag("skip-message-on-error")
BOOTSTRAP_SERVER: Final = text("bootstrap-server")
KEY_DESERIALIZER: Final = text("key-deserializer")
VALUE_DESERIALIZER: Final = text("value-deserializer")
SYSTEST_EVENTS: Final = flag("enable-systest-events")
ISOLATION_LEVEL: Final = text("isolation-level", "read_uncommitted")
GROUP: Final = text("group")
OPTIONS: Final = declared_options(vars())
LOGGER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_LARGEST_GROUP_NUMBER: Final = 100_000


def check(options: Options) -> None:
    options.print_help_or_version(HEADLINE)
    if options.has(TOPIC) == (options.has(INCLUDE) or options.has(WHITELIST)):
        old = "--whitelist is DEPRECATED use --include instead; ignored if --include specified."
        options.refuse(f"Exactly one of --include/--topic is required. {old if options.has(WHITELIST) else ''}")
    if options.has(PARTITION):
        if not options.has(TOPIC):
            options.refuse("The topic is required when partition is specified.")
        if options.has(FROM_BEGINNING) and options.has(OFFSET):
            options.refuse("Options from-beginning and offset cannot be specified together.")
    elif options.has(OFFSET):
        options.refuse("The partition is required when offset is specified.")
    options.require(BOOTSTRAP_SERVER)


def consumer_settings(options: Options) -> dict[str, str]:
    """Return the consumer's settings from the file, the command line and the options; later ones win."""
    from_file = properties_of(options.value(CONSUMER_CONFIG))
    extra = key_values(options.values(CONSUMER_PROPERTY))
    groups = dict.fromkeys(
        [options.value(GROUP)] * options.has(GROUP)
        + [source["group.id"] for source in (from_file, extra) if "group.id" in source]
    )
    if len(groups) > 1:
        detected = ", ".join(f"'{each}'" for each in groups)
        options.refuse(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', "
            f"or via '--consumer.config') do not match. Detected group ids: {detected}"
        )
    if groups and options.has(PARTITION):
        options.refuse("Options group and partition cannot be specified together.")
    settings = {**from_file, **extra}
    _set_reset(options, settings)
    settings["bootstrap.servers"] = options.value(BOOTSTRAP_SERVER)
    settings.setdefault("client.id", "console-consumer")
    if options.has(ISOLATION_LEVEL) or "isolation.level" not in settings:
        settings["isolation.level"] = options.value(ISOLATION_LEVEL)
    if not groups:
        settings.setdefault("enable.auto.commit", "false")
    number = random.randrange(_LARGEST_GROUP_NUMBER)
    settings["group.id"] = next(iter(groups), f"console-consumer-{number}")
    return settings


def _set_reset(options: Options, settings: dict[str, str]) -> None:
    given = settings.get("auto.offset.reset")
    if given is None:
        settings["auto.offset.reset"] = "earliest" if options.has(FROM_BEGINNING) else "latest"
    elif options.has(FROM_BEGINNING) and given != "earliest":
        print(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={given}', please remove one option",
            file=sys.stderr,
        )
        raise SystemExit(1)


def start_offset(options: Options) -> int | str:
    """Return the start of a single partition: an offset, "earliest" or "latest"."""
    if not options.has(OFFSET):
        return "earliest" if options.has(FROM_BEGINNING) else "latest"
    given = options.value(OFFSET)
    if given.lower() in ("earliest", "latest"):
        return str(given.lower())
    if not given.isdigit():
        options.refuse(
            f"The provided offset value '{given}' is incorrect. "
            "Valid values are 'earliest', 'latest', or a non-negative long."
        )
    return int(given)
