"""Who gives way when there are too many that are not authenticated, and that they have one step in each turn of the loop."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from kafkalite.broker.connections.unauthenticated import UnauthenticatedConnections
from kafkalite.testing.simulation import virtual_time


class Someone:
    """A connection."""

    def __init__(self, peer_host: str) -> None:
        self.peer_host, self.closed = peer_host, False

    def close(self) -> None:
        self.closed = True


class Crowd:
    """Room for three, and a clock."""

    def __init__(self) -> None:
        self.now_s, self.outcomes = 0.0, Counter[str]()
        self.unauthenticated = UnauthenticatedConnections(lambda: 3, lambda: self.now_s, self.outcomes)

    def comes(self, *hosts: str) -> list[Someone]:
        found = [Someone(host) for host in hosts]
        for each in found:
            self.unauthenticated.add(each)
        return found


def test_the_oldest_of_an_address_that_has_more_gives_way() -> None:
    crowd = Crowd()
    one, two, three = crowd.comes("attacker", "attacker", "attacker")
    four, five = crowd.comes("client", "other")
    assert [each.closed for each in (one, two, three, four, five)] == [True, True, False, False, False]
    assert crowd.outcomes["displaced"] == 2


def test_among_equals_the_newcomer_gives_way_until_the_oldest_has_been_there_for_a_while() -> None:
    """Else nobody of a crowd that comes back at once would ever be let in."""
    crowd = Crowd()
    first, _, _, late = crowd.comes("a", "b", "c", "d")
    assert late.closed and not first.closed
    crowd.now_s = 1.5
    (later,) = crowd.comes("e")
    assert first.closed and not later.closed


def test_who_is_authenticated_or_gone_makes_room() -> None:
    crowd = Crowd()
    one, two, _ = crowd.comes("a", "b", "c")
    crowd.unauthenticated.remove(one)
    crowd.unauthenticated.remove(one)
    crowd.unauthenticated.remove(two)
    assert not [each for each in crowd.comes("a", "a") if each.closed]


def test_a_crowd_from_one_address_does_not_keep_others_waiting() -> None:
    let_in: list[str] = []

    async def scenario() -> None:
        unauthenticated = UnauthenticatedConnections(lambda: 3, lambda: 0.0, Counter())

        async def step(host: str) -> None:
            await unauthenticated.wait_for_turn(host)
            let_in.append(host)

        crowd = [asyncio.ensure_future(step("crowd")) for _ in range(10)]
        await asyncio.sleep(0)
        await step("client")
        assert let_in.count("crowd") <= 2
        await asyncio.gather(*crowd)

    asyncio.run(scenario())
    assert let_in.count("crowd") == 10


@pytest.mark.parametrize(("count", "rest"), [(15, 1.0), (2050, 3.0)])
def test_unauthenticated_connections_have_half_of_the_loops_time_and_a_crowd_has_a_quarter(
    count: int, rest: float
) -> None:
    """A step with a key of RSA takes ms: one in each turn of the loop left little to others whose own turns are short."""
    worked_s, step_s = 0.0, 0.0004
    ended_s = 0.0

    async def scenario() -> None:
        nonlocal worked_s, ended_s
        loop = asyncio.get_running_loop()
        unauthenticated = UnauthenticatedConnections(lambda: 3, lambda: loop.time() + worked_s, Counter())

        async def step() -> None:
            nonlocal worked_s
            await unauthenticated.wait_for_turn()
            worked_s += step_s

        await asyncio.gather(*(step() for _ in range(count)))
        await unauthenticated.wait_for_turn()
        ended_s = loop.time()

    virtual_time.run(scenario())
    assert worked_s == pytest.approx(count * step_s)
    assert ended_s / worked_s == pytest.approx(rest, rel=0.05)


def test_there_is_one_step_in_each_turn_of_the_loop() -> None:
    turns, steps = 0, list[int]()

    async def scenario() -> None:
        nonlocal turns
        unauthenticated = UnauthenticatedConnections(lambda: 3, lambda: 0.0, Counter())

        async def step() -> None:
            await unauthenticated.wait_for_turn()
            steps.append(turns)

        waiting = [asyncio.ensure_future(step()) for _ in range(5)]
        while not all(each.done() for each in waiting):
            turns += 1
            await asyncio.sleep(0)

    asyncio.run(scenario())
    assert len(set(steps)) == 5
