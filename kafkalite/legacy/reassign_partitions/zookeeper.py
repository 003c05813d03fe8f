"""`kafka-reassign-partitions --zookeeper`, as in Kafka 2.8: the plan becomes a znode that the controller reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.legacy.cluster.zookeeper_store import live_brokers, with_store
from kafkalite.legacy.command_line.failures import CommandFailed, TerseError, ToolError
from kafkalite.legacy.java.json_documents import read_text
from kafkalite.legacy.reassign_partitions import options as tool
from kafkalite.legacy.reassign_partitions import plans
from kafkalite.types import TopicPartition
from zk import paths
from zk.store import NodeExistsError, NoNodeError, Store
from zk.znodes.admin import PartitionName, ReassignPartitions
from zk.znodes.topics import TopicAssignment

if TYPE_CHECKING:
    from kafkalite.legacy.command_line.option_parser import Options

_DEPRECATED: Final = "Warning: --zookeeper is deprecated, and will be removed in a future version of Kafka."
_THERE_IS_ANOTHER: Final = "There is an existing assignment running."


def run(options: Options) -> None:
    """Run the command. Raises ToolError."""
    if options.has(tool.LIST) or options.has(tool.CANCEL):
        options.refuse(f'Option "[zookeeper]" can\'t be used with action "{_action(options)}"')
    print(_DEPRECATED)
    with_store(options.value(tool.ZOOKEEPER), lambda store: _ACTIONS[_action(options)](options, store))


def _action(options: Options) -> str:
    return str(next(each for each in tool.ACTIONS if options.has(each)))


async def _current(store: Store, topics: set[str]) -> dict[TopicPartition, tuple[int, ...]]:
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for topic in sorted(topics):
        try:
            data, _ = await store.read(paths.topic(topic))
        except NoNodeError:
            continue
        partitions = TopicAssignment.decode(data).partitions
        found.update({TopicPartition(topic, number): replicas for number, replicas in partitions.items()})
    return found


async def _moving(store: Store) -> set[TopicPartition]:
    """Return the partitions whose reassignment is waiting for the controller or in progress."""
    moving = set[TopicPartition]()
    try:
        data, _ = await store.read(paths.REASSIGN_PARTITIONS)
        moving.update(TopicPartition(*each) for each in ReassignPartitions.decode(data).replicas)
    except NoNodeError:
        pass
    for topic in await store.children(paths.TOPICS):
        try:
            assignment = TopicAssignment.decode((await store.read(paths.topic(topic)))[0])
        except NoNodeError:
            continue
        moving.update(TopicPartition(topic, number) for number in {**assignment.adding, **assignment.removing})
    return moving


def _plan(options: Options) -> plans.Plan:
    return plans.read_plan(read_text(options.value(tool.REASSIGNMENT_JSON_FILE)))


async def _execute(options: Options, store: Store) -> None:
    plan = _plan(options)
    plans.check_executable(plan)
    if plan.log_dirs or options.has(tool.THROTTLE) or options.has(tool.LOG_DIRS_THROTTLE):
        raise CommandFailed(
            "bootstrap-server needs to be provided when replica reassignments or throttles are present."
        )
    plans.check_brokers(plan, await live_brokers(store))
    every = await _current(store, {each.topic for each in plan.targets})
    missing = [str(each) for each in plan.targets if each not in every]
    if missing:
        raise ToolError(f"The proposed assignment contains non-existent partitions: Set({', '.join(missing)})")
    plans.print_current({each: every[each] for each in plan.targets})
    wanted = {PartitionName(*each): tuple(replicas) for each, replicas in plan.targets.items()}
    try:
        await store.create(paths.REASSIGN_PARTITIONS, ReassignPartitions(wanted).encode(), parents=True)
    except NodeExistsError:
        raise TerseError(_THERE_IS_ANOTHER) from None
    names = ",".join(map(str, sorted(plan.targets)))
    print(f"Successfully started partition reassignment{plans.plural(plan.targets)} for {names}")


async def _verify(options: Options, store: Store) -> None:
    plan = _plan(options)
    moving = await _moving(store)
    current = await _current(store, {each.topic for each in plan.targets})
    print("Status of partition reassignment:")
    for each, target in sorted(plan.targets.items()):
        print(plans.state_line(each, target, current.get(each, ()), is_moving=each in moving))
    print()


async def _generate(options: Options, store: Store) -> None:
    from kafkalite.legacy.reassign_partitions.actions import propose_assignment

    brokers = plans.read_brokers(options.value(tool.BROKER_LIST))
    topics = plans.read_topics(read_text(options.value(tool.TOPICS_TO_MOVE_JSON_FILE)))
    current = await _current(store, set(topics))
    racks = {} if options.has(tool.DISABLE_RACK_AWARE) else await live_brokers(store)
    known = {broker: rack for broker, rack in racks.items() if rack is not None and broker in brokers}
    target = propose_assignment(current, brokers, known)
    print(f"Current partition replica assignment\n{plans.assignment_json(current)}\n")
    print(f"Proposed partition reassignment configuration\n{plans.assignment_json(target)}")


_ACTIONS: Final = {str(tool.EXECUTE): _execute, str(tool.VERIFY): _verify, str(tool.GENERATE): _generate}
