"""`kafka-topics --zookeeper`, as in Kafka 2.8: topics in ZooKeeper, where the controller sees changes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.legacy.cluster.zookeeper_store import live_brokers, read_config, with_store, write_config
from kafkalite.legacy.command_line.entry import log
from kafkalite.legacy.command_line.failures import ToolError, operation_error
from kafkalite.legacy.topics import options as tool
from kafkalite.legacy.topics.descriptions import headline, partition_head
from kafkalite.types import INTERNAL_TOPICS, NO_BROKER
from zk import paths
from zk.store import NodeExistsError, NoNodeError, Store
from zk.znodes.topics import PartitionState, TopicAssignment

if TYPE_CHECKING:
    from kafkalite.controller.topics.zk_admin_manager import ZkAdminManager
    from kafkalite.legacy.command_line.option_parser import Options

_MOVED_TO_CONFIGS: Final = (
    "WARNING: Altering topic configuration from this script has been deprecated and may be removed in future releases.\n"
    "         Going forward, please use kafka-configs.sh for this functionality"
)


def run(options: Options) -> int:
    """Run the command and return its exit status."""
    if options.has(tool.CREATE) and not options.has(tool.REPLICA_ASSIGNMENT):
        options.require(tool.PARTITIONS, tool.REPLICATION_FACTOR)
    for each in (tool.UNDER_MIN_ISR, tool.AT_MIN_ISR):
        options.forbid_with(each, [tool.ZOOKEEPER])
    action = next(action for option, action in _ACTIONS.items() if options.has(option))
    try:
        with_store(options.value(tool.ZOOKEEPER), lambda store: action(options, store))
    except ToolError as problem:
        print(f"Error while executing topic command : {problem.message}")
        log("ERROR", str(problem), "kafka.admin.TopicCommand$")
        return 1
    return 0


async def _topics(options: Options, store: Store) -> list[str]:
    found = tool.select_topics(options, sorted(await store.children(paths.TOPICS)))
    named = options.value(tool.TOPIC)
    if named is not None and not found and not options.has(tool.LIST) and not options.has(tool.IF_EXISTS):
        raise ToolError(f"Topic '{named}' does not exist as expected")
    return found


def _writes(store: Store) -> ZkAdminManager:
    """Return a controller's rules and writes, with a broker's default settings."""
    from kafkalite.config.broker import BrokerConfig, LiveConfig
    from kafkalite.controller.topics.zk_admin_manager import ZkAdminManager

    config = BrokerConfig.from_properties({"broker.id": "0", "zookeeper.connect": "unused"})
    return ZkAdminManager(store, LiveConfig(config), random.Random())


def _check(outcome: object) -> None:
    if isinstance(outcome, KafkaError):
        raise ToolError(str(outcome), "org.apache.kafka.common.errors.ApiException")


async def _create(options: Options, store: Store) -> None:
    from kafkalite.controller.requests import NOT_GIVEN, NewTopic

    name = options.value(tool.TOPIC)
    tool.warn_of_collisions(name)
    assignment = tool.replica_assignment(options)
    if not assignment:
        tool.check_counts(options)
    topic = NewTopic(
        name,
        NOT_GIVEN if assignment else options.value(tool.PARTITIONS),
        NOT_GIVEN if assignment else options.value(tool.REPLICATION_FACTOR),
        tuple((number, tuple(replicas)) for number, replicas in assignment.items()),
        tuple(tool.topic_configs(options).items()),
    )
    brokers = await live_brokers(store)
    if options.has(tool.DISABLE_RACK_AWARE):
        brokers = dict.fromkeys(brokers)
    outcome = (await _writes(store).create_topics([topic], brokers))[name]
    exists = isinstance(outcome, KafkaError) and outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS
    if exists and options.has(tool.IF_NOT_EXISTS):
        return
    _check(outcome)
    print(f"Created topic {name}.")


async def _list(options: Options, store: Store) -> None:
    for topic in await _topics(options, store):
        marked = await store.exists(paths.delete_topic(topic)) is not None
        print(f"{topic} - marked for deletion" if marked else topic)


async def _alter(options: Options, store: Store) -> None:
    added, removed = tool.topic_configs(options), options.values(tool.DELETE_CONFIG)
    for topic in await _topics(options, store):
        if added or removed:
            print(_MOVED_TO_CONFIGS)
            configs = {**await read_config(store, f"topics/{topic}"), **added}
            await write_config(store, f"topics/{topic}", {key: configs[key] for key in configs if key not in removed})
            print(f"Updated config for topic {topic}.")
        if options.has(tool.PARTITIONS):
            await _add_partitions(options, store, topic)


async def _add_partitions(options: Options, store: Store, topic: str) -> None:
    from kafkalite.controller.requests import NewPartitions

    if topic in INTERNAL_TOPICS:
        raise ToolError(f"The number of partitions for the internal topic {topic} cannot be changed.")
    print(
        "WARNING: If partitions are increased for a topic that has a key, "
        "the partition logic or ordering of the messages will be affected"
    )
    data, _ = await store.read(paths.topic(topic))
    present = len(TopicAssignment.decode(data).partitions)
    new = list(tool.replica_assignment(options).values())[present:]
    assignments = tuple(tuple(each) for each in new) or None
    wanted = NewPartitions(topic, options.value(tool.PARTITIONS), assignments)
    _check((await _writes(store).create_partitions([wanted], await live_brokers(store)))[topic])
    print("Adding partitions succeeded!")


async def _delete(options: Options, store: Store) -> None:
    for topic in await _topics(options, store):
        if topic in INTERNAL_TOPICS:
            raise operation_error(
                f"Topic {topic} is a kafka internal topic and is not allowed to be marked for deletion."
            )
        try:
            await store.create(paths.delete_topic(topic), parents=True)
        except NodeExistsError:
            print(f"Topic {topic} is already marked for deletion.")
            continue
        print(f"Topic {topic} is marked for deletion.")
        print("Note: This will have no impact if delete.topic.enable is not set to true.")


async def _describe(options: Options, store: Store) -> None:
    live = set(await live_brokers(store))
    for topic in await _topics(options, store):
        try:
            assignment = TopicAssignment.decode((await store.read(paths.topic(topic)))[0])
        except NoNodeError:
            print(f"Topic {topic} doesn't exist!")
            continue
        marked = "\tMarkedForDeletion: true" if await store.exists(paths.delete_topic(topic)) else ""
        configs = await read_config(store, f"topics/{topic}")
        if not any(options.has(each) for each in tool.REPORTS) and (configs or not options.has(tool.WITH_OVERRIDES)):
            factor = len(next(iter(assignment.partitions.values()), ()))
            overrides = [f"{key}={value}" for key, value in configs.items()]
            print(headline(topic, assignment.topic_id, len(assignment.partitions), factor, overrides) + marked)
        for number, replicas in sorted(assignment.partitions.items()) if not options.has(tool.WITH_OVERRIDES) else ():
            leader, isr = await _leader_and_isr(store, topic, number)
            if _is_shown(options, replicas, leader, isr, live):
                print(partition_head(topic, number, leader, replicas, isr) + marked)


async def _leader_and_isr(store: Store, topic: str, number: int) -> tuple[int, tuple[int, ...]]:
    try:
        data, _ = await store.read(paths.partition_state(topic, number))
    except NoNodeError:
        return NO_BROKER, ()
    state = PartitionState.decode(data)
    return state.leader, state.isr


def _is_shown(options: Options, replicas: Sequence[int], leader: int, isr: Sequence[int], live: set[int]) -> bool:
    if not any(options.has(each) for each in tool.REPORTS):
        return True
    return (options.has(tool.UNDER_REPLICATED) and len(isr) < len(replicas)) or (
        options.has(tool.UNAVAILABLE) and leader not in live
    )


_ACTIONS: Final = {
    tool.CREATE: _create,
    tool.ALTER: _alter,
    tool.LIST: _list,
    tool.DESCRIBE: _describe,
    tool.DELETE: _delete,
}
