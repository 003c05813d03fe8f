"""What a transcript asks coordinators and leaders, as a client does: offsets of groups, where leader epochs end.

Members of its groups send what they are asked to and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafkalite.client import Admin, ClientError, Consumer, TopicPartition
from kafkalite.client.cluster.client import ClusterClient
from kafkalite.client.consumer.options import ConsumerOptions
from kafkalite.client.consumer.truncation import end_of_epoch
from kafkalite.client.group.consumer_protocol import Subscription, encode_subscription
from kafkalite.client.group.coordinator_link import CoordinatorLink, Lane
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.testing.simulation.processes import Process, Simulation

PATIENCE_S: Final = 4.0
_ASSIGNOR: Final = "range"
_PROTOCOL_TYPE: Final = "consumer"


def partition_named(text: str) -> TopicPartition:
    """Of `topic-number`."""
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


@dataclass
class BareMember:
    """A member between its requests; it sends no heartbeats."""

    process: Process
    cluster: ClusterClient
    link: CoordinatorLink
    instance_id: str | None = None
    assignors: Sequence[str] = (_ASSIGNOR,)
    member_id: str = ""
    generation: int = -1

    async def ask(self, message: Any) -> Any:
        """Its coordinator, whoever that is and as soon as it is one."""

        async def attempt() -> Any:
            return await self.link.request(message, Lane.MEMBERSHIP, PATIENCE_S)

        return await self.cluster.retrying(attempt, message.API.name, PATIENCE_S)

    async def close(self) -> None:
        self.link.close()
        await self.cluster.close()


class Members:
    """Commands of `tests.simulation.stories`."""

    simulation: Simulation
    bare_members: dict[str, BareMember]
    _client: Callable[..., Awaitable[list[str]]]

    async def _commit(self, group: str, partition: str, offset: str, *words: str) -> list[str]:
        name = words[1] if words else ""
        if name in self.bare_members:
            return await self._commit_as_member(self.bare_members[name], partition, int(offset), words[2:])
        target = partition_named(partition)

        async def commit(options: dict[str, Any]) -> list[str]:
            async with Consumer(group_id=group, enable_auto_commit=False, **options) as consumer:
                consumer.assign([target])
                try:
                    await asyncio.wait_for(consumer.commit({target: int(offset)}), PATIENCE_S)
                except Exception:
                    return ["not acknowledged"]
            return ["acknowledged"]

        return await self._client(commit, name=name)

    async def _offsets(self, group: str, *words: str) -> list[str]:
        async def ask(options: dict[str, Any]) -> list[str]:
            async with Admin(**options) as admin:
                try:
                    found = await asyncio.wait_for(admin.list_group_offsets(group), PATIENCE_S)
                except Exception:
                    return ["not known"]
            return [f"{partition}: {told.offset}" for partition, told in sorted(found.items()) if told is not None]

        return await self._client(ask, name=words[1] if words else "")

    async def _epoch(self, partition: str, epoch: str) -> list[str]:
        target = partition_named(partition)

        async def ask(options: dict[str, Any]) -> list[str]:
            cluster = ClusterClient(ConsumerOptions(**options))
            await cluster.connect()
            await cluster.wait_for_topic(target.topic, PATIENCE_S, partition=target.partition)
            found = await cluster.retrying(lambda: end_of_epoch(cluster, target, int(epoch)), "asking", PATIENCE_S)
            await cluster.close()
            return [f"epoch {found.leader_epoch} ends at {found.end_offset}"]

        return await self._client(ask)

    async def _join(self, group: str, *words: str) -> list[str]:
        """A member of that name asks to join, for the first time or again; a new one is given an id first (KIP-394).

        `instance=` makes it a static one (KIP-345), `assignors=` says which it knows.
        """
        name, given = words[1], dict(each.split("=") for each in words[2:])
        member = self.bare_members.get(name)
        process = member.process if member else self.simulation.process(name)

        async def join(options: dict[str, Any]) -> list[str]:
            nonlocal member
            if member is None:
                cluster = ClusterClient(ConsumerOptions(group_id=group, **options))
                await cluster.connect()
                member = self.bare_members[name] = BareMember(process, cluster, CoordinatorLink(cluster, group))
                member.instance_id = given.get("instance")
            member.assignors = given.get("assignors", _ASSIGNOR).split(",")
            code = await _joined(member)
            if code == ErrorCode.MEMBER_ID_REQUIRED:
                code = await _joined(member)
            return [f"{name} is in generation {member.generation}" if not code else ErrorCode(code).name]

        return await self._client(join, process)

    async def _share(self, _: str, *words: str) -> list[str]:
        """A member asks for its share; one that leads its group gives nobody anything."""
        member = self.bare_members[words[1]]

        async def sync(_: dict[str, Any]) -> list[str]:
            answer = await member.ask(
                messages.sync_group_request.SyncGroupRequest(
                    group_id=member.link.group_id,
                    generation_id=member.generation,
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    protocol_type=_PROTOCOL_TYPE,
                    protocol_name=member.assignors[0],
                    assignments=[],
                )
            )
            return ["it has its share" if not answer.error_code else ErrorCode(answer.error_code).name]

        return await self._client(sync, member.process)

    async def _commit_as_member(
        self, member: BareMember, partition: str, offset: int, words: tuple[str, ...]
    ) -> list[str]:
        m = messages.offset_commit_request
        target = partition_named(partition)
        generation = int(words[0].removeprefix("generation=")) if words else member.generation

        async def commit(_: dict[str, Any]) -> list[str]:
            each = m.OffsetCommitRequestPartition(
                partition_index=target.partition, committed_offset=offset, committed_leader_epoch=-1
            )
            request = m.OffsetCommitRequest(
                group_id=member.link.group_id,
                generation_id_or_member_epoch=generation,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                topics=[m.OffsetCommitRequestTopic(name=target.topic, partitions=[each])],
            )
            try:
                answer = await member.ask(request)
            except (ClientError, TimeoutError):
                return ["not acknowledged"]
            code = answer.topics[0].partitions[0].error_code
            return ["acknowledged" if not code else ErrorCode(code).name]

        return await self._client(commit, member.process)


async def _joined(member: BareMember) -> int:
    m = messages.join_group_request
    subscription = encode_subscription(Subscription(("t",)))
    offered = [m.JoinGroupRequestProtocol(name=each, metadata=subscription) for each in member.assignors]
    answer = await member.ask(
        m.JoinGroupRequest(
            group_id=member.link.group_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member.member_id,
            protocol_type=_PROTOCOL_TYPE,
            group_instance_id=member.instance_id,
            protocols=offered,
        )
    )
    member.member_id, member.generation = answer.member_id, answer.generation_id
    return int(answer.error_code)
