"""What to type instead of a command or an option that does not exist: words of other tools, and Apache Kafka's own options.

Imported with the first mistake. Options of Apache Kafka's that mean the same here are no mistakes: `kafkalite.cli.kafka_words.options`.
"""

from __future__ import annotations

from typing import Final

import click

from kafkalite import NAME

_COMMANDS: Final = {
    "acls": "acl",
    "brokers": "cluster info",
    "configs": "config",
    "console-consumer": "consume",
    "console-producer": "produce",
    "consumer": "consume",
    "consumer-groups": "group",
    "consumer-perf-test": "perf consume",
    "contexts": "context",
    "delete-records": "record delete",
    "dump-log": "log dump",
    "get-offsets": "offset list",
    "groups": "group",
    "health": "cluster health",
    "help": "--help",
    "info": "cluster info",
    "leader-election": "leader elect",
    "log-dirs": "logdir",
    "producer": "produce",
    "producer-perf-test": "perf produce",
    "read": "consume",
    "reassign-partitions": "partition reassign",
    "server-start": "broker",
    "start": "cluster up",
    "status": "cluster health",
    "topics": "topic",
    "transactions": "transaction",
    "ui": "console",
    "up": "cluster up",
    "version": "--version",
    "write": "produce",
    "zookeeper": "zk",
    "zookeeper-shell": "zk",
}
"""Commands by other names; those of Apache Kafka's tools also with `kafka-` before them and `.sh` behind."""

_SYNONYMS: Final = {
    "add": ("create",),
    "all": ("list",),
    "desc": ("describe",),
    "drop": ("delete", "remove"),
    "edit": ("alter",),
    "generate": ("plan",),
    "get": ("describe", "list"),
    "info": ("describe",),
    "ls": ("list", "tree"),
    "make": ("create", "add"),
    "new": ("create", "add"),
    "reset": ("reset-offsets",),
    "rm": ("delete", "remove"),
    "show": ("describe", "info", "list"),
}
"""Words for commands of a group, with what they may be called here; the first that the group has is meant."""

_CHANGES_OF_TOPICS: Final = (
    "'kafkalite partition add TOPIC TOTAL' adds partitions, "
    "'kafkalite config set KEY=VALUE --topic TOPIC' changes settings."
)
_ENTITIES: Final = "Name what is meant: --topic, --broker, --user and so on, each with its name."
_WITHOUT_MIN_ISR: Final = "'kafkalite cluster health' shows these partitions."

_COMMANDS_OF: Final = {
    ("spark", "nightly"): "Did you mean 'kafkalite spark run'?",
    ("topic", "alter"): _CHANGES_OF_TOPICS,
}
"""Commands of groups whose work another one does here."""

_OPTIONS: Final = {
    "": {
        "--broker-list": "Use --bootstrap-server.",
        "--consumer-config": "Use --command-config.",
        "--consumer-property": "Use -X KEY=VALUE.",
        "--consumer.config": "Use --command-config.",
        "--force": "Use --yes.",
        "--producer-config": "Use --command-config.",
        "--producer-property": "Use -X KEY=VALUE.",
        "--producer-props": "Use -X KEY=VALUE, once for each.",
        "--producer.config": "Use --command-config.",
        "--server": "Use --bootstrap-server.",
        "--zookeeper": "Brokers are asked: use --bootstrap-server.",
    },
    "acl": {
        "--allow-principal": "Use 'kafkalite acl add PRINCIPAL OPERATION...'.",
        "--allow-host": "Use 'kafkalite acl add' with --host.",
        "--deny-principal": "Use 'kafkalite acl add PRINCIPAL OPERATION... --deny'.",
        "--deny-host": "Use 'kafkalite acl add --deny' with --host.",
        "--consumer": "Name the operations: 'kafkalite acl add PRINCIPAL Read Describe --topic TOPIC', and Read for --group.",
        "--producer": "Name the operations: 'kafkalite acl add PRINCIPAL Write Describe Create --topic TOPIC'.",
        "--operation": "Operations are named without an option: 'kafkalite acl add PRINCIPAL Read Describe'.",
        "--resource-pattern-type": "Use --prefix for prefixed names.",
    },
    "config": {
        "--add-config": "Use --set KEY=VALUE, once for each.",
        "--add-config-file": "Use --file.",
        "--delete-config": "Use --delete KEY.",
        "--entity-default": "Use --broker-defaults, --user-defaults or --client-defaults.",
        "--entity-name": _ENTITIES,
        "--entity-type": _ENTITIES,
    },
    "consume": {
        "--formatter": "Use -o or -f.",
        "--include": "One topic is read at a time.",
        "--key-deserializer": "Bytes are shown as they are; -o jsonl shows any.",
        "--property": "Use -f '%k %v\\n' or -o table to see keys, times and headers.",
        "--timeout-ms": "Use --idle-timeout, in seconds.",
        "--value-deserializer": "Bytes are shown as they are; -o jsonl shows any.",
        "--whitelist": "One topic is read at a time.",
    },
    "group": {
        "--all-groups": "Use --all.",
        "--export": "Use -o csv.",
        "--members": "Use 'kafkalite group members GROUP'.",
        "--offsets": "Use 'kafkalite group describe GROUP'.",
        "--to-current": "Use --shift-by 0.",
        "--verbose": "Use -o wide.",
    },
    "leader": {
        "--all-topic-partitions": "Use --all.",
        "--election-type": "The preferred replica is elected; use --unclean for any that lives.",
        "--partition": "Partitions are named without an option: TOPIC-0.",
        "--path-to-json-file": "Partitions are named without an option: TOPIC-0.",
        "--topic": "Partitions are named without an option: TOPIC-0.",
    },
    "log": {
        "--deep-iteration": "Use --records.",
        "--files": "Files are named without an option.",
        "--print-data-log": "Use --records.",
    },
    "logdir": {"--broker-list": "Use --broker, once for each.", "--topic-list": "Topics are named without an option."},
    "offset": {
        "--partitions": "Use TOPIC:0,1.",
        "--time": "Use --at, with earliest, latest, max-timestamp or a time.",
        "--topic-partitions": "Use TOPIC:0,1.",
    },
    "partition": {
        "--broker-list": "Use --brokers.",
        "--partitions": "The number in all is named without an option: 'kafkalite partition add TOPIC TOTAL'.",
        "--reassignment-json-file": "Use --file.",
        "--topics-to-move-json-file": "Topics are named without an option.",
    },
    "perf": {
        "--messages": "Use --num-records.",
        "--payload-monotonic": "Values are random letters, or parts of --payload-file.",
        "--print-metrics": "Rates and latencies are printed always.",
        "--reporting-interval": "The progress is shown on a terminal.",
    },
    "produce": {
        "--compression-codec": "Use --compression.",
        "--line-reader": "Use --input.",
        "--property": "Use --key-separator to read keys, --header for headers.",
        "--request-required-acks": "Use --acks.",
    },
    "record": {"--offset-json-file": "Use --file."},
    "topic": {
        "--alter": _CHANGES_OF_TOPICS,
        "--at-min-isr-partitions": _WITHOUT_MIN_ISR,
        "--delete-config": "Use 'kafkalite config delete KEY --topic TOPIC'.",
        "--exclude-internal": "Topics of the cluster's own are shown only with --internal.",
        "--topics-with-overrides": "Use 'kafkalite config describe --topics'.",
        "--unavailable-partitions": "Use --unavailable.",
        "--under-min-isr-partitions": _WITHOUT_MIN_ISR,
        "--under-replicated-partitions": "Use --under-replicated.",
    },
}
"""Options of Apache Kafka's tools by the command that does their work ("": any), with what to use instead."""


_BEHIND_COMMANDS: Final = frozenset(
    [
        "-b",
        "--bootstrap-server",
        "--command-config",
        "--context",
        "-o",
        "--output",
        "--timeout",
        "-X",
        "-z",
        "--zookeeper",
    ]
)
"""Options that most commands have, and the program itself has not."""


def explain(problem: click.NoSuchOption | click.NoSuchCommand) -> click.UsageError:
    """Return the mistake with what was meant, where that is known; otherwise the mistake as it is."""
    context = problem.ctx
    if context is None:
        return problem
    path = _path(context)
    known = tuple(context.command.list_commands(context)) if isinstance(context.command, click.Group) else ()
    if isinstance(problem, click.NoSuchOption):
        remedy, what = _option_remedy(path, known, problem.option_name), f"option {problem.option_name!r}"
    else:
        remedy, what = _command_remedy(path, known, problem.command_name), f"command {problem.command_name!r}"
    return problem if remedy is None else click.UsageError(f"No such {what}. {remedy}", context)


def _path(context: click.Context) -> tuple[str, ...]:
    """Return the names of the command and the groups above it, without the program's."""
    return () if context.parent is None else (*_path(context.parent), context.info_name or "")


def _command_remedy(path: tuple[str, ...], known: tuple[str, ...], word: str) -> str | None:
    if not path:
        meant = _COMMANDS.get(word.removeprefix("kafka-").removesuffix(".sh"))
    elif remedy := _COMMANDS_OF.get((path[0], word)):
        return remedy
    else:
        meant = next((each for each in _SYNONYMS.get(word, ()) if each in known), None)
    return None if meant is None else _did_you_mean(*path, meant)


def _did_you_mean(*words: str) -> str:
    return f"Did you mean '{' '.join((NAME, *words))}'?"


def _option_remedy(path: tuple[str, ...], known: tuple[str, ...], option: str) -> str | None:
    """Return what to use instead of an option. Apache Kafka's tools have options for what are commands here: `topic --list`."""
    word = option.removeprefix("--")
    if not path and option in _BEHIND_COMMANDS:
        return f"It comes behind a command, as in '{NAME} topic list {option} …'."
    if word in known or any(each in known for each in _SYNONYMS.get(word, ())):
        return _command_remedy(path, known, word) or _did_you_mean(*path, word)
    return _OPTIONS.get(path[0] if path else "", {}).get(option) or _OPTIONS[""].get(option)
