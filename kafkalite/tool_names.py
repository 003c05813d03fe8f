"""Apache Kafka's command-line tools by name, each with the module whose `main` it is. Each is also known with `.sh` behind its name.

They are no commands of an installation, where they would shadow those of an Apache Kafka: `kafkalite kafka-tools` puts them into a folder.
"""

from __future__ import annotations

import shlex
from typing import Final

TOOLS: Final = {
    "kafka-acls": "kafkalite.legacy.acls",
    "kafka-configs": "kafkalite.legacy.configs.tool",
    "kafka-console-consumer": "kafkalite.legacy.console.consumer",
    "kafka-console-producer": "kafkalite.legacy.console.producer",
    "kafka-consumer-groups": "kafkalite.legacy.consumer_groups.tool",
    "kafka-consumer-perf-test": "kafkalite.legacy.perf_test.consumer",
    "kafka-delete-records": "kafkalite.legacy.delete_records",
    "kafka-dump-log": "kafkalite.legacy.dump_log.tool",
    "kafka-get-offsets": "kafkalite.legacy.get_offsets",
    "kafka-leader-election": "kafkalite.legacy.leader_election",
    "kafka-log-dirs": "kafkalite.legacy.log_dirs",
    "kafka-preferred-replica-election": "kafkalite.legacy.preferred_replica_election",
    "kafka-producer-perf-test": "kafkalite.legacy.perf_test.producer",
    "kafka-reassign-partitions": "kafkalite.legacy.reassign_partitions.tool",
    "kafka-topics": "kafkalite.legacy.topics.tool",
    "kafka-transactions": "kafkalite.legacy.transactions",
    "zookeeper-security-migration": "kafkalite.legacy.zookeeper_security_migration",
    "zookeeper-shell": "kafkalite.legacy.zookeeper_shell",
}
MARK: Final = "# Written by `kafkalite kafka-tools`, which may replace it.\n"


def tool_scripts(python: str) -> dict[str, str]:
    """Return the text of a program for each name, with and without `.sh`; `python` is the interpreter of the installation."""
    named = [(name + ending, module) for name, module in TOOLS.items() for ending in ("", ".sh")]
    return {name: _script(python, name, module) for name, module in named}


def _script(python: str, name: str, module: str) -> str:
    # Modules are those of the installation, not of the folder that it is called in (-P).
    program = f"import sys; sys.argv[0] = {name!r}; from {module} import main; sys.exit(main())"
    return f'#!/bin/sh\n{MARK}exec {shlex.quote(python)} -P -c {shlex.quote(program)} "$@"\n'
