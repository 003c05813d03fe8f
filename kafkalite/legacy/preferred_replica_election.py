"""`kafka-preferred-replica-election`, as in Kafka 2.8: move leadership back to the preferred replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.legacy.command_line.entry import run_tool
from kafkalite.legacy.command_line.failures import CommandFailed
from kafkalite.legacy.command_line.option_parser import ZOOKEEPER_DEPRECATED, Options, declared_options, text
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from zk.store import Store

TOOL: Final = "kafka-preferred-replica-election"
HEADLINE: Final = (
    "This tool helps to causes leadership for each partition to be transferred back to the 'preferred replica', "
    "it can be used to balance leadership among the servers."
)
JSON_FILE: Final = text("path-to-json-file")
ZOOKEEPER: Final = text("zookeeper")
BOOTSTRAP_SERVER: Final = text("bootstrap-server")
ADMIN_CONFIG: Final = text("admin.config")
OPTIONS: Final = declared_options(vars())


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    print("This tool is deprecated. Please use kafka-leader-election tool. Tracking issue: KAFKA-8405")
    options = Options(TOOL, OPTIONS, arguments)
    options.print_help_or_version(HEADLINE)
    if options.has(ZOOKEEPER) == options.has(BOOTSTRAP_SERVER):
        options.refuse("Exactly one of --bootstrap-server or --zookeeper should be specified")
    partitions: list[TopicPartition] | None = None
    if options.has(JSON_FILE):
        from kafkalite.legacy.java.json_documents import read_text
        from kafkalite.legacy.leader_election import read_partitions

        partitions = read_partitions(read_text(options.value(JSON_FILE)))
    if options.has(ZOOKEEPER):
        print(ZOOKEEPER_DEPRECATED)
        from kafkalite.legacy.cluster.zookeeper_store import with_store

        with_store(options.value(ZOOKEEPER), lambda store: _elect_by_znode(store, partitions))
        return 0
    from kafkalite.legacy.cluster.admin_session import admin_properties, with_admin
    from kafkalite.legacy.leader_election import elect

    properties = admin_properties(options.value(ADMIN_CONFIG), options.value(BOOTSTRAP_SERVER))
    with_admin(properties, lambda session: elect(session, "PREFERRED", partitions))
    return 0


async def _elect_by_znode(store: Store, wanted: Sequence[TopicPartition] | None) -> None:
    """Request the election from the controller by a znode, without waiting for its end."""
    from zk import paths
    from zk.store import NodeExistsError
    from zk.znodes.admin import PartitionName, PreferredElection
    from zk.znodes.topics import TopicAssignment

    known = []
    for topic in sorted(await store.children(paths.TOPICS)):
        data, _ = await store.read(paths.topic(topic))
        known += [TopicPartition(topic, number) for number in sorted(TopicAssignment.decode(data).partitions)]
    valid = known if wanted is None else [each for each in wanted if each in known]
    if valid:
        partitions = tuple(PartitionName(*each) for each in valid)
        names = ",".join(map(str, valid))
        try:
            await store.create(paths.PREFERRED_REPLICA_ELECTION, PreferredElection(partitions).encode(), parents=True)
        except NodeExistsError:
            raise CommandFailed(
                f"Preferred replica leader election currently in progress for {names}. Aborting operation"
            ) from None
        print(f"Created preferred replica election path with {names}")
    print(f"Successfully started preferred replica election for partitions Set({', '.join(map(str, valid))})")
    for each in wanted or ():
        if each not in known:
            print(f"Skipping preferred replica leader election for partition {each} since it doesn't exist.")
