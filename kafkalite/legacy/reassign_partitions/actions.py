"""The actions of `kafka-reassign-partitions` over brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.errors import ErrorCode
from kafkalite.legacy.command_line.failures import BrokerFailure, CommandFailed, TerseError, ToolError, operation_error
from kafkalite.legacy.java.json_documents import read_text
from kafkalite.legacy.reassign_partitions import options as tool
from kafkalite.legacy.reassign_partitions import plans
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client.admin.configs import ConfigChange, ConfigResource
    from kafkalite.client.admin.log_dirs import TopicPartitionReplica
    from kafkalite.client.admin.partitions import PartitionReassignment
    from kafkalite.legacy.cluster.admin_session import AdminSession
    from kafkalite.legacy.command_line.option_parser import Options
    from kafkalite.legacy.reassign_partitions.plans import Plan

_THERE_IS_ANOTHER: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and "
    "create a new partition assignment in addition to the existing one. The --additional "
    "flag can also be used to change the throttle by resubmitting the current reassignment."
)
_VERIFY_LATER: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)
_LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_RETRY_S: Final = 0.1


class Actions:
    """The actions of one command."""

    def __init__(self, session: AdminSession, options: Options) -> None:
        self._session, self._options = session, options

    def _plan(self) -> Plan:
        return plans.read_plan(read_text(self._options.value(tool.REASSIGNMENT_JSON_FILE)))

    async def _moves(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        return await self._session.call(
            "listPartitionReassignments", lambda admin: admin.partitions.list_partition_reassignments(partitions)
        )

    async def _replicas(self, topics: Iterable[str]) -> dict[TopicPartition, tuple[int, ...]]:
        """Return the replicas of all partitions of topics. Raises BrokerFailure, which names a topic that does not exist."""
        found: dict[TopicPartition, tuple[int, ...]] = {}
        for name in sorted(set(topics)):
            try:
                (topic,) = await self._session.call(
                    "describeTopics",
                    lambda admin, wanted=name: admin.topics.describe_topics([wanted]),  # type: ignore[misc]
                )
            except BrokerFailure as problem:
                if not problem.is_unknown_topic:
                    raise
                raise BrokerFailure(
                    problem.code, f"Topic {name} not found.", "UnknownTopicOrPartitionException"
                ) from None
            found.update({TopicPartition(name, each.partition): each.replicas for each in topic.partitions})
        return found

    async def _live(self) -> list[int]:
        cluster = await self._session.call("listNodes", lambda admin: admin.topics.describe_cluster())
        return sorted(each.id for each in cluster.brokers)

    # --list

    async def list_moves(self) -> None:
        moves = await self._moves()
        if not moves:
            print("No partition reassignments found.")
            return
        print("Current partition reassignments:")
        for partition, move in moves.items():
            line = f"{partition}: replicas: {plans.join_brokers(move.replicas)}."
            line += f" adding: {plans.join_brokers(move.adding_replicas)}." if move.adding_replicas else ""
            line += f" removing: {plans.join_brokers(move.removing_replicas)}." if move.removing_replicas else ""
            print(line)

    # --verify

    async def verify(self) -> None:
        plan = self._plan()
        moves = await self._moves()
        print("Status of partition reassignment:")
        for partition, target in sorted(plan.targets.items()):
            print(await self._state_line(partition, target, moves))
        states = await self._log_dir_states(plan.log_dirs)
        print("\n".join(states.values()))
        ongoing = any("still in progress" in line for line in states.values())
        if not moves and not ongoing and not self._options.has(tool.PRESERVE_THROTTLES):
            await self._clear_throttles(plan)

    async def _state_line(
        self, partition: TopicPartition, target: Sequence[int], moves: Mapping[TopicPartition, PartitionReassignment]
    ) -> str:
        if partition in moves:
            return plans.state_line(partition, target, (), is_moving=True)
        try:
            current = (await self._replicas([partition.topic])).get(partition, ())
        except BrokerFailure as problem:
            if not problem.is_unknown_topic:
                raise
            current = ()
        return plans.state_line(partition, target, current, is_moving=False)

    async def _log_dir_states(self, targets: Mapping[TopicPartitionReplica, str]) -> dict[TopicPartitionReplica, str]:
        """Return a line for each replica about its move between log directories."""
        if not targets:
            return {}
        places = await self._log_dirs(targets)
        return {
            replica: _log_dir_line(replica, target, *places.get(replica, (None, None)))
            for replica, target in sorted(targets.items(), key=lambda item: (item[0].broker, *item[0][:2]))
        }

    async def _log_dirs(
        self, targets: Iterable[TopicPartitionReplica]
    ) -> dict[TopicPartitionReplica, tuple[str | None, str | None]]:
        """Return the log directories of replicas, current and future."""
        from kafkalite.client.admin.log_dirs import TopicPartitionReplica

        brokers = sorted({each.broker for each in targets} & set(await self._live()))
        found = await self._session.call(
            "describeReplicaLogDirs", lambda admin: admin.log_dirs.describe_log_dirs(brokers)
        )
        places: dict[TopicPartitionReplica, tuple[str | None, str | None]] = {}
        for broker, directories in found.items():
            for directory in directories:
                for each in directory.replicas:
                    replica = TopicPartitionReplica(*each.topic_partition, broker)
                    current, future = places.get(replica, (None, None))
                    places[replica] = (current, directory.path) if each.is_future else (directory.path, future)
        return places

    async def _clear_throttles(self, plan: Plan) -> None:
        from kafkalite.administration.replica_throttles import without_throttles
        from kafkalite.client.admin.configs import ConfigChange

        brokers = sorted({*await self._live(), *(broker for _, target in plan.partitions for broker in target)})
        topics = sorted({partition.topic for partition, _ in plan.partitions})
        changes = without_throttles(topics, brokers)
        for resource, of_it in changes.items():
            if resource.type == "broker":
                of_it.append(ConfigChange(_LOG_DIRS_RATE, "delete"))
        print(f"Clearing broker-level throttles on broker{plans.plural(brokers)} {plans.join_brokers(brokers)}")
        await self._alter({each: of_it for each, of_it in changes.items() if each.type == "broker"})
        print(f"Clearing topic-level throttles on topic{plans.plural(topics)} {','.join(topics)}")
        await self._alter({each: of_it for each, of_it in changes.items() if each.type == "topic"})

    async def _alter(self, changes: Mapping[ConfigResource, list[ConfigChange]]) -> None:
        await self._session.call(
            "incrementalAlterConfigs", lambda admin: admin.configs.incremental_alter_configs(changes)
        )

    # --generate

    async def generate(self) -> None:
        options = self._options
        document = read_text(options.value(tool.TOPICS_TO_MOVE_JSON_FILE))
        brokers = plans.read_brokers(options.value(tool.BROKER_LIST))
        current = await self._replicas(plans.read_topics(document))
        racks = await self._racks(brokers)
        target = propose_assignment(current, brokers, racks)
        print(f"Current partition replica assignment\n{plans.assignment_json(current)}\n")
        print(f"Proposed partition reassignment configuration\n{plans.assignment_json(target)}")

    async def _racks(self, brokers: Sequence[int]) -> dict[int, str]:
        if self._options.has(tool.DISABLE_RACK_AWARE):
            return {}
        cluster = await self._session.call("listNodes", lambda admin: admin.topics.describe_cluster())
        wanted = [each for each in cluster.brokers if each.id in brokers]
        racks = {each.id: each.rack for each in wanted if each.rack is not None}
        if racks and len(racks) != len(wanted):
            raise operation_error(
                "Not all brokers have rack information. Add --disable-rack-aware in command line "
                "to make replica assignment without rack information."
            )
        return racks

    # --execute

    async def execute(self) -> None:
        plan = self._plan()
        plans.check_executable(plan)
        moves = await self._moves()
        if moves and not self._options.has(tool.ADDITIONAL):
            raise TerseError(_THERE_IS_ANOTHER)
        plans.check_brokers(plan, await self._live())
        current = await self._current(plan)
        plans.print_current(current)
        await self._throttle(plan, current, moves)
        await self._start(plan.targets)
        names = ",".join(map(str, sorted(plan.targets)))
        print(f"Successfully started partition reassignment{plans.plural(plan.targets)} for {names}")
        if plan.log_dirs:
            await self._move_log_dirs(plan.log_dirs)

    async def _current(self, plan: Plan) -> dict[TopicPartition, tuple[int, ...]]:
        every = await self._replicas(each.topic for each in plan.targets)
        missing = [str(each) for each in plan.targets if each not in every]
        if missing:
            raise BrokerFailure(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"Unable to find partition: {', '.join(missing)}",
                "UnknownTopicOrPartitionException",
            )
        return {each: every[each] for each in plan.targets}

    async def _throttle(
        self,
        plan: Plan,
        current: Mapping[TopicPartition, Sequence[int]],
        moves: Mapping[TopicPartition, PartitionReassignment],
    ) -> None:
        rate, log_dirs_rate = self._options.value(tool.THROTTLE), self._options.value(tool.LOG_DIRS_THROTTLE)
        if rate < 0 and log_dirs_rate < 0:
            return
        print(_VERIFY_LATER)
        if rate >= 0:
            from kafkalite.administration.replica_throttles import throttle_changes

            await self._alter(throttle_changes(current, plan.targets, moves, rate))
            print(f"The inter-broker throttle limit was set to {rate} B/s")
        if log_dirs_rate >= 0:
            await self._throttle_log_dirs(plan, log_dirs_rate)

    async def _throttle_log_dirs(self, plan: Plan, rate: int) -> None:
        from kafkalite.client.admin.configs import ConfigChange, ConfigResource

        brokers = sorted({each.broker for each in plan.log_dirs})
        change = ConfigChange(_LOG_DIRS_RATE, "set", str(rate))
        await self._alter({ConfigResource("broker", str(each)): [change] for each in brokers})
        print(f"The replica-alter-dir throttle limit was set to {rate} B/s")

    async def _start(self, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
        try:
            await self._session.call(
                "alterPartitionReassignments", lambda admin: admin.partitions.alter_partition_reassignments(targets)
            )
        except BrokerFailure as problem:
            raise TerseError("Error reassigning partition(s):\n" + _reasons(problem, targets)) from None

    async def _move_log_dirs(self, targets: Mapping[TopicPartitionReplica, str]) -> None:
        """Start the moves. A replica that its broker does not have yet is tried again. Raises ToolError."""
        pending = dict(targets)
        timeout_ms = self._options.value(tool.TIMEOUT)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_ms / 1000
        while True:
            for replica in sorted(pending, key=lambda each: (each.broker, *each[:2])):
                if await self._begin_log_dir_move(replica, pending[replica]):
                    print(
                        f"Successfully started moving log directory to {pending.pop(replica)} for replica "
                        f"{replica.topic}-{replica.partition} with broker {replica.broker} "
                    )
            if not pending:
                return
            if loop.time() >= deadline_s:
                names = ",".join(_replica_name(each) for each in sorted(pending))
                raise TerseError(
                    f"Timed out before log directory move{plans.plural(pending)} could be started for: {names}"
                )
            await asyncio.sleep(_RETRY_S)

    async def _begin_log_dir_move(self, replica: TopicPartitionReplica, directory: str) -> bool:
        try:
            await self._session.call(
                "alterReplicaLogDirs", lambda admin: admin.log_dirs.alter_replica_log_dirs({replica: directory})
            )
        except BrokerFailure as problem:
            if problem.code == ErrorCode.REPLICA_NOT_AVAILABLE:
                return False
            raise CommandFailed(f"Failed to alter dir for {_replica_name(replica)}") from None
        return True

    # --cancel

    async def cancel(self) -> None:
        plan = self._plan()
        active = sorted(await self._moves(list(plan.targets)))
        if active:
            await self._stop(active)
            names = ",".join(map(str, active))
            print(f"Successfully cancelled partition reassignment{plans.plural(active)} for: {names}")
        else:
            print("None of the specified partition reassignments are active.")
        back = await self._moving_back(plan.log_dirs)
        if back:
            await self._move_log_dirs(back)
        else:
            print("None of the specified partition moves are active.", end="")
        if not self._options.has(tool.PRESERVE_THROTTLES):
            await self._clear_throttles(plan)

    async def _stop(self, active: Sequence[TopicPartition]) -> None:
        try:
            await self._session.call(
                "alterPartitionReassignments",
                lambda admin: admin.partitions.alter_partition_reassignments(dict.fromkeys(active)),
            )
        except BrokerFailure as problem:
            raise TerseError(
                f"Error cancelling partition reassignment{plans.plural(problem.failures or active)} for:\n"
                + _reasons(problem, active)
            ) from None

    async def _moving_back(self, targets: Mapping[TopicPartitionReplica, str]) -> dict[TopicPartitionReplica, str]:
        """Return the original directories of replicas that are being moved."""
        if not targets:
            return {}
        places = await self._log_dirs(targets)
        return {
            replica: current
            for replica in targets
            if (current := places.get(replica, (None, None))[0]) is not None and places[replica][1] is not None
        }


def _replica_name(replica: TopicPartitionReplica) -> str:
    return f"{replica.topic}-{replica.partition}-{replica.broker}"


def _reasons(problem: BrokerFailure, partitions: Iterable[TopicPartition]) -> str:
    failures = problem.failures or {str(each): problem for each in partitions}
    ordered = [each for each in sorted(partitions) if str(each) in failures]
    return "\n".join(f"{each}: {failures[str(each)].message}" for each in ordered)


def _log_dir_line(replica: TopicPartitionReplica, target: str, current: str | None, future: str | None) -> str:
    partition = f"Partition {replica.topic}-{replica.partition}"
    if current is None:
        return (
            f"{partition} is not found in any live log dir on broker {replica.broker}. "
            "There is likely an offline log directory on the broker."
        )
    if future is None:
        if current == target:
            return f"Reassignment of replica {_replica_name(replica)} completed successfully."
        return f"{partition} on broker {replica.broker} is not being moved from log dir {current} to {target}."
    if future == target:
        return f"Reassignment of replica {_replica_name(replica)} is still in progress."
    return f"{partition} on broker {replica.broker} is being moved to log dir {future} instead of {target}."


def propose_assignment(
    current: Mapping[TopicPartition, Sequence[int]], brokers: Sequence[int], racks: Mapping[int, str]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return Kafka's placement, which starts at a random broker. Raises ToolError."""
    import random

    from zk.placement import PlacementError, assign

    proposed = {}
    for topic in sorted({each.topic for each in current}):
        of_topic = [each for each in current if each.topic == topic]
        factor = len(current[of_topic[0]])
        start, shift = random.randrange(len(brokers)), random.randrange(len(brokers))
        try:
            placed = assign(sorted(brokers), len(of_topic), factor, start=start, shift=shift, racks=dict(racks) or None)
        except PlacementError:
            raise ToolError(
                f"Replication factor: {factor} larger than available brokers: {len(brokers)}.",
                "org.apache.kafka.common.errors.InvalidReplicationFactorException",
            ) from None
        proposed.update({TopicPartition(topic, number): tuple(replicas) for number, replicas in placed.items()})
    return proposed
