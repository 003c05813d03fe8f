"""A rebalance storm: 200 members join, sync, vanish and leave at random for 20 seconds, with --long for a minute; then there is peace,
and memory is given back.

The members speak the protocol themselves over connections of our own, because two hundred real consumers would test the machine they
run on. Each connection is one member; one in three goes without a word.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

import pytest

from kafkalite.errors import ErrorCode
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from tests.system.scenario import Scenario

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

GROUP = "storm"
MEMBERS, STAYING = 200, 10
STORM_S, LONG_STORM_S = 20.0, 60.0
SESSION_MS = 6000
PEACE_WITHIN_S = 2 * SESSION_MS / 1000 + 5
GROWTH_BYTES_MAX = 40_000_000
_JOIN_TIMEOUT_S = 60.0
_GONE = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}


@dataclass
class Tally:
    """What the members saw."""

    joins: int = 0
    generation: int = 0
    went_back: int = 0


class StormMember:
    """One member on one connection."""

    def __init__(self, connection: Connection, tally: Tally) -> None:
        self._connection, self._tally = connection, tally
        self.member_id, self.generation = "", -1

    async def join(self) -> bool:
        """Join and sync; False when it must be tried again."""
        m = messages.join_group_request
        reply = await self._connection.request(
            m.JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[m.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\1\0\1t")],
            ),
            9,
            _JOIN_TIMEOUT_S,
        )
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            return False
        if reply.error_code:
            self._forget(reply.error_code)
            return False
        self._tally.joins += 1
        self._tally.went_back += reply.generation_id < self._tally.generation
        self._tally.generation = max(self._tally.generation, reply.generation_id)
        self.generation = reply.generation_id
        s = messages.sync_group_request
        assignments = [
            s.SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"x") for each in reply.members
        ]
        sync = s.SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        synced = await self._connection.request(sync, 5, _JOIN_TIMEOUT_S)
        self._forget(synced.error_code)
        return not synced.error_code

    def _forget(self, code: int) -> None:
        if code in _GONE:
            self.member_id = ""

    async def stay(self, until_s: float) -> None:
        """Send heartbeats, and rejoin when asked to, until `until_s` of the loop's time."""
        loop = asyncio.get_running_loop()
        joined = False
        while loop.time() < until_s:
            if not joined:
                joined = await self.join()
                continue
            beat = messages.heartbeat_request.HeartbeatRequest(
                group_id=GROUP, generation_id=self.generation, member_id=self.member_id
            )
            reply = await self._connection.request(beat, 4, _JOIN_TIMEOUT_S)
            if reply.error_code:
                self._forget(reply.error_code)
                joined = False
            else:
                await asyncio.sleep(0.5)

    async def leave(self) -> None:
        m = messages.leave_group_request
        leaving = m.LeaveGroupRequest(group_id=GROUP, members=[m.MemberIdentity(member_id=self.member_id)])
        await self._connection.request(leaving, 5, _JOIN_TIMEOUT_S)


async def connect(address: str) -> Connection:
    host, port = address.split(":")
    return await Connection.open(host, int(port), client_id="storm", timeout_s=10)


async def come_and_go(address: str, seed: int, storm_ends_s: float, tally: Tally) -> None:
    """One place in the storm, taken by one member after the other."""
    rng, loop = random.Random(seed), asyncio.get_running_loop()
    await asyncio.sleep(rng.uniform(0, 3))
    while loop.time() < storm_ends_s:
        connection = await connect(address)
        member = StormMember(connection, tally)
        await member.stay(min(storm_ends_s, loop.time() + rng.expovariate(1 / 5)))
        if member.member_id and rng.random() < 2 / 3:
            await member.leave()
        connection.close()


async def described(connection: Connection) -> Any:
    m = messages.describe_groups_request
    reply = await connection.request(m.DescribeGroupsRequest(groups=[GROUP]), 5, 10)
    return reply.groups[0]


async def wait_for_peace(connection: Connection) -> float:
    """Until the group is stable with those who stay; the seconds that took."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    while True:
        group = await described(connection)
        if group.group_state == "Stable" and len(group.members) == STAYING:
            return loop.time() - began_s
        assert loop.time() < began_s + PEACE_WITHIN_S, f"{group.group_state} with {len(group.members)} members"
        await asyncio.sleep(0.1)


async def storm(address: str, storm_s: float) -> tuple[Tally, float, int]:
    """What the members saw, how long peace took, and in which generation it came."""
    tally, loop = Tally(), asyncio.get_running_loop()
    ends_s = loop.time() + storm_s
    staying = [StormMember(await connect(address), tally) for _ in range(STAYING)]
    stay = [asyncio.create_task(member.stay(ends_s + PEACE_WITHIN_S + 10)) for member in staying]
    await asyncio.gather(*(come_and_go(address, seed, ends_s, tally) for seed in range(MEMBERS - STAYING)))
    watch = await connect(address)
    took_s = await wait_for_peace(watch)
    generation = tally.generation
    await asyncio.sleep(3)
    assert tally.generation == generation, "peace lasts"
    for task in stay:
        task.cancel()
    await asyncio.gather(*stay, return_exceptions=True)
    for member in staying:
        await member.leave()
    assert (await described(watch)).group_state == "Empty"
    return tally, took_s, generation


async def find_coordinator(address: str) -> int:
    """Its id; the first question makes the topic, so it may take a while."""
    connection = await connect(address)
    request = messages.find_coordinator_request.FindCoordinatorRequest(coordinator_keys=[GROUP])
    while True:
        (found,) = (await connection.request(request, 4, 10)).coordinators
        if not found.error_code:
            connection.close()
            return int(found.node_id)
        await asyncio.sleep(0.1)


def test_a_storm_of_members_ends_in_peace(scenario: Scenario, long: bool) -> None:
    broker_id = asyncio.run(find_coordinator(scenario.cluster.bootstrap_servers.split(",")[0]))
    broker = scenario.cluster.broker(broker_id)
    before = broker.resident_bytes()
    tally, took_s, generation = asyncio.run(storm(broker.address, LONG_STORM_S if long else STORM_S))
    grown = broker.resident_bytes() - before
    print(
        f"{tally.joins} joins, {generation} generations, peace after {took_s:.1f} s, "
        f"the coordinator grew by {grown / 1e6:.1f} MB"
    )
    assert tally.joins > MEMBERS and not tally.went_back
    assert grown < GROWTH_BYTES_MAX
