"""A whole cluster detects its dead: how soon, on what evidence, and who is spared; rings of witnesses are in test_witness_rings."""

from __future__ import annotations

import asyncio

import pytest

from kafkalite.broker.failure_detection.detector import Verdict
from kafkalite.broker.failure_detection.evidence import Evidence
from kafkalite.broker.failure_detection.failure_detection import Outcome
from kafkalite.broker.failure_detection.heartbeats import HeartbeatLink
from kafkalite.client import Admin, ConfigChange, ConfigResource
from kafkalite.errors import AuthenticationError
from kafkalite.net.connection import Connection
from kafkalite.storage.directories.log_store import LogStore
from kafkalite.testing.simulation.cluster import SimulatedCluster
from kafkalite.testing.simulation.lies import carry_out
from kafkalite.types import Endpoint
from tests.simulation.detection import (
    controller,
    create_topic,
    detection,
    end_of_registration,
    isolate,
    outcomes,
    run,
    verdicts,
)
from zk import paths

SESSION_S = 18.0
SILENCE_S, INTERVAL_S = 1.2, 0.2
VICTIM = 3


@pytest.mark.parametrize("victim", [1, 2, 3])
def test_a_killed_broker_is_found_dead_at_once(victim: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        epoch = cluster.broker_epoch(victim)
        cluster.kill(victim)
        assert await end_of_registration(cluster, victim, epoch, 5) < 0.2
        await cluster.until(lambda: cluster.read_znode(paths.CONTROLLER) is not None, "a controller", 1)
        await asyncio.sleep(1)
        assert verdicts(cluster) == {Evidence.REFUSED: 2}

    run(scenario, detection="evidence")


def test_who_looks_around_hears_of_a_death_and_lists_the_dead_for_a_while() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        process = cluster.brokers[1].process
        assert process is not None
        watcher, loop = detection(cluster, 1), asyncio.get_running_loop()
        began_s = loop.time()
        await process.run(watcher.look_around())
        assert loop.time() - began_s < 0.02 and not watcher.is_suspected(VICTIM)
        cluster.kill(VICTIM)
        await process.run(watcher.look_around())
        assert watcher.is_suspected(VICTIM)
        await asyncio.sleep(1)
        assert [each.broker_id for each in watcher.find_left()] == [VICTIM]
        await asyncio.sleep(10)
        assert watcher.find_left() == []

    run(scenario, detection="evidence")


def test_two_killed_of_five_are_found_dead_one_after_the_other() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        epochs = {broker: cluster.broker_epoch(broker) for broker in (1, 2)}
        for broker in epochs:
            cluster.kill(broker)
        for broker, epoch in epochs.items():
            assert await end_of_registration(cluster, broker, epoch, 5) < 0.6
        await asyncio.sleep(1)
        assert outcomes(cluster)[Outcome.ENDED] == 2
        assert outcomes(cluster).keys() <= {Outcome.ENDED, Outcome.OVER, Outcome.DEFERRED}

    run(scenario, brokers=5, detection="evidence")


def test_a_broker_that_stops_is_not_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    close = LogStore.close

    async def close_slowly(self: LogStore, *, may_mark: bool) -> None:
        await asyncio.sleep(3)  # its listeners refuse already, its session goes on
        await close(self, may_mark=may_mark)

    monkeypatch.setattr(LogStore, "close", close_slowly)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.stop(VICTIM)
        await asyncio.sleep(1)
        assert verdicts(cluster) == {}

    run(scenario, detection="evidence")


@pytest.mark.parametrize("mode", ["session", "observe"])
def test_without_the_mode_the_session_decides(mode: str) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        epoch = cluster.broker_epoch(VICTIM)
        cluster.kill(VICTIM)
        assert await end_of_registration(cluster, VICTIM, epoch, 30) > 0.9 * SESSION_S
        await asyncio.sleep(1)
        assert outcomes(cluster) == ({Outcome.RIGHT: 2} if mode == "observe" else {})

    run(scenario, detection=mode)


def test_the_last_but_one_of_two_waits_for_the_session() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        epoch = cluster.broker_epoch(2)
        cluster.kill(2)
        assert await end_of_registration(cluster, 2, epoch, 30) > 0.9 * SESSION_S

    run(scenario, brokers=2, detection="evidence")


async def pause(cluster: SimulatedCluster, broker: int, length_s: float) -> None:
    victim = cluster.brokers[broker]
    assert victim.process is not None and victim.store is not None
    victim.process.pause()
    victim.store.fall_silent()
    await asyncio.sleep(length_s)
    victim.process.resume()
    victim.store.resume()


@pytest.mark.parametrize("length_s", [0.3, 0.9, 3.0])
def test_a_pause_below_the_bound_is_no_silence(length_s: float) -> None:
    """Nothing is known to be acknowledged here, as when connections alone are lost; accepted ones show that a host lives."""

    async def scenario(cluster: SimulatedCluster) -> None:
        for _ in range(5):
            for broker in cluster.brokers:
                await pause(cluster, broker, length_s)
                await asyncio.sleep(0.5)
        assert verdicts(cluster) == {} and outcomes(cluster) == {}

    run(scenario, detection="evidence")


def test_all_may_pause_together_for_longer_than_the_bound() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await asyncio.gather(*(pause(cluster, broker, 5.0) for broker in cluster.brokers))
        await asyncio.sleep(3)
        assert verdicts(cluster) == {}

    run(scenario, detection="evidence")


def test_a_broker_whose_packets_are_lost_is_found_silent() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        victim = controller(cluster)
        epoch, store = cluster.broker_epoch(victim), cluster.brokers[victim].store
        assert store is not None
        store.suspend(12.0)
        isolate(cluster, victim)
        # Silence counts from the last heartbeat, which came up to an interval before.
        assert SILENCE_S - INTERVAL_S < await end_of_registration(cluster, victim, epoch, 30) < 1.9
        assert verdicts(cluster) == {Evidence.SILENT: 2}

    run(scenario, detection="evidence")


def test_who_answers_before_zookeeper_does_keeps_its_session() -> None:
    """The verdict is right when it is given; ZooKeeper is asked before it is carried out, and answers late."""

    async def scenario(cluster: SimulatedCluster) -> None:
        victim = controller(cluster)
        others = [cluster.brokers[each] for each in cluster.brokers if each != victim]
        epoch = cluster.broker_epoch(victim)
        isolate(cluster, victim)
        for other in others:
            assert other.store is not None
            other.store.lag_s = 0.2
        await cluster.until(lambda: verdicts(cluster) == {Evidence.SILENT: 2}, "the verdicts", 5)
        for other in others:
            cluster.heal(f"broker-{victim}", f"broker-{other.broker_id}")
        await asyncio.sleep(10)
        assert cluster.broker_epoch(victim) == epoch
        assert outcomes(cluster)[Outcome.RESTRAINED] == 1 and Outcome.ENDED not in outcomes(cluster)

    run(scenario, detection="evidence")


def test_a_silent_follower_is_not_waited_for() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = controller(cluster)
        victim = leader % 3 + 1
        await create_topic(cluster, [leader, victim])
        epoch = cluster.broker_epoch(victim)
        isolate(cluster, victim)
        assert 1.2 < await end_of_registration(cluster, victim, epoch, 30) < 1.9

    run(scenario, detection="evidence")


def test_a_broker_that_rejects_the_credentials_of_others_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """As each does once the password of brokers has changed, to those that do not know the new one when they authenticate again."""
    rejecting: set[int] = set()
    open_connection = HeartbeatLink._open

    async def open_unless_rejected(self: HeartbeatLink, endpoint: Endpoint) -> Connection:
        if rejecting & {self._peer, self._sender.broker_id}:
            raise AuthenticationError("invalid credentials")
        connection = await open_connection(self, endpoint)
        links.append((self, connection))
        return connection

    links: list[tuple[HeartbeatLink, Connection]] = []
    monkeypatch.setattr(HeartbeatLink, "_open", open_unless_rejected)

    async def scenario(cluster: SimulatedCluster) -> None:
        victim = controller(cluster)
        epoch = cluster.broker_epoch(victim)
        rejecting.add(victim)
        for link, connection in links:
            if victim in (link._peer, link._sender.broker_id):
                connection.close()
        await asyncio.sleep(10)
        assert cluster.broker_epoch(victim) == epoch and verdicts(cluster) == {}

    run(scenario, detection="evidence")


def test_a_silent_broker_that_nobody_waits_for_keeps_its_session() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        victim = controller(cluster) % 3 + 1
        epoch = cluster.broker_epoch(victim)
        isolate(cluster, victim)
        await asyncio.sleep(10)
        assert cluster.broker_epoch(victim) == epoch
        assert outcomes(cluster)[Outcome.RESTRAINED] == 2
        assert outcomes(cluster).keys() <= {Outcome.RESTRAINED, Outcome.DEFERRED}

    run(scenario, detection="evidence")


def test_silence_is_no_evidence_where_it_is_switched_off() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        victim = controller(cluster)
        epoch = cluster.broker_epoch(victim)
        isolate(cluster, victim)
        await asyncio.sleep(10)
        assert cluster.broker_epoch(victim) == epoch and verdicts(cluster) == {}

    run(scenario, detection="evidence", silence_ms="0")


def test_who_was_taken_for_dead_and_lives_comes_back_and_others_are_more_patient() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        victim = controller(cluster)
        others = [each for each in cluster.brokers if each != victim]
        epoch = cluster.broker_epoch(victim)
        isolate(cluster, victim)
        await end_of_registration(cluster, victim, epoch, 30)
        for other in others:
            cluster.heal(f"broker-{victim}", f"broker-{other}")
        await cluster.until(lambda: cluster.broker_epoch(victim) is not None, "another registration", 30)
        await cluster.until(lambda: outcomes(cluster).get(Outcome.WRONG) == 2, "that it is seen to live", 30)
        assert [detection(cluster, each).patience for each in others] == [2, 2]

    run(scenario, detection="evidence")


def test_a_cut_between_two_brokers_kills_neither() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.cut("broker-1", "broker-2")
        await asyncio.sleep(10)
        assert verdicts(cluster) == {}

    run(scenario, detection="evidence")


@pytest.mark.parametrize(("unclean", "is_spared"), [("true", True), ("false", False)])
def test_the_only_one_in_sync_is_spared_where_a_successor_would_lose_records(unclean: str, is_spared: bool) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        configs = {"unclean.leader.election.enable": unclean, "min.insync.replicas": "1"}
        partition = await create_topic(cluster, [4, 5], **configs)
        epochs = {broker: cluster.broker_epoch(broker) for broker in (4, 5)}
        cluster.kill(5)
        await end_of_registration(cluster, 5, epochs[5], 5)
        await cluster.until(lambda: cluster.partition_state(partition).isr == (4,), "an ISR of one")  # type: ignore[union-attr]
        await asyncio.sleep(1)
        cluster.kill(4)
        took_s = await end_of_registration(cluster, 4, epochs[4], 30)
        assert (took_s > 0.9 * SESSION_S) if is_spared else (took_s < 0.5)

    run(scenario, brokers=5, detection="evidence")


def test_the_only_one_in_sync_is_spared_by_a_broker_whose_metadata_lack_the_partition() -> None:
    """A broker that has just started is told one partition by a new controller, and the others only with the next change of brokers."""

    async def scenario(cluster: SimulatedCluster) -> None:
        configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        partition = await create_topic(cluster, [4, 5], **configs)
        cluster.kill(5)
        await cluster.until(lambda: cluster.partition_state(partition).isr == (4,), "an ISR of one", 60)  # type: ignore[union-attr]
        epoch, ender = cluster.broker_epoch(4), cluster.brokers[1]
        assert epoch is not None and ender.app is not None
        await asyncio.sleep(1)
        del ender.app.metadata.topics[partition.topic]
        carry_out(ender, Verdict(4, epoch, Evidence.REFUSED))
        await cluster.until(lambda: outcomes(cluster).get(Outcome.RESTRAINED), "the verdict", 5)
        assert cluster.broker_epoch(4) == epoch

    run(scenario, brokers=5, detection="evidence")


def test_a_broker_that_has_just_come_back_witnesses_a_death() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        partition = await create_topic(cluster, [1, 2, 3])
        governs = controller(cluster)
        back = next(each for each in cluster.brokers if each != governs)
        for victim in (back, governs):
            epoch = cluster.broker_epoch(victim)
            cluster.kill(victim)
            assert await end_of_registration(cluster, victim, epoch, 30) < 0.5
            await cluster.start(victim)
            await cluster.until(lambda: len(cluster.partition_state(partition).isr) == 3, "a full ISR", 30)  # type: ignore[union-attr]

    run(scenario, detection="evidence")


def test_a_broker_that_stops_begins_nothing_any_more() -> None:
    """Its failure detection is closed while it still hears heartbeats, and others' connections end."""

    async def scenario(cluster: SimulatedCluster) -> None:
        stopping, epoch = cluster.brokers[1], cluster.broker_epoch(VICTIM)
        assert stopping.process is not None and epoch is not None
        closed = detection(cluster, 1)
        await stopping.process.run(closed.close())
        before = set(stopping.process.tasks())
        carry_out(stopping, Verdict(VICTIM, epoch, Evidence.SILENT))
        cluster.kill(2)
        await asyncio.sleep(1)
        begun = [each for each in stopping.process.tasks() if each not in before]
        assert not [each for each in begun if "session" in each or "listeners" in each or "host" in each]
        assert cluster.broker_epoch(VICTIM) == epoch and not closed.verdicts.total()
        await cluster.start(2)

    run(scenario, detection="evidence")


def test_a_listener_that_moves_is_no_death() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        for broker in cluster.brokers:
            epoch = cluster.broker_epoch(broker)
            await alter_listener(cluster, broker, 9100)
            await asyncio.sleep(3)
            assert cluster.broker_epoch(broker) == epoch
        assert Outcome.ENDED not in outcomes(cluster)

    run(scenario, detection="evidence")


async def alter_listener(cluster: SimulatedCluster, broker: int, port: int) -> None:
    async def alter() -> None:
        async with Admin(
            bootstrap_servers=cluster.bootstrap_servers, chance=cluster.simulation.chance("admin").random
        ) as admin:
            change = ConfigChange("listeners", "set", f"PLAINTEXT://broker-{broker}:{port}")
            await admin.incremental_alter_configs({ConfigResource("broker", str(broker)): [change]})

    process = cluster.simulation.process("admin")
    await process.run(alter())
    process.kill()


def test_a_slow_zookeeper_ends_sessions_too() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        victim = controller(cluster)
        await create_topic(cluster, [1, 2, 3], **{"unclean.leader.election.enable": "true"})
        epoch = cluster.broker_epoch(victim)
        for broker in cluster.running():
            assert broker.store is not None
            broker.store.lag_s = 0.3
        cluster.kill(victim)
        assert await end_of_registration(cluster, victim, epoch, 30) < 6

    run(scenario, detection="evidence")


def test_the_death_of_a_broker_that_ends_sessions_keeps_nobody_from_ending_its_own() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        ender = cluster.brokers[4].store
        assert ender is not None
        await ender.create(paths.SESSION_ENDING_PREFIX, ephemeral=True, sequence=True)
        epochs = {broker: cluster.broker_epoch(broker) for broker in (3, 4)}
        for broker in epochs:
            cluster.kill(broker)
        for broker, epoch in epochs.items():
            assert await end_of_registration(cluster, broker, epoch, 30) < 1.5

    run(scenario, brokers=5, detection="evidence")


@pytest.mark.parametrize("brokers", [4, 5, 6, 8, 10])
def test_two_halves_that_have_lost_each_other_and_reach_zookeeper_end_no_session(brokers: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await create_topic(cluster, list(cluster.brokers))
        epochs = {broker: cluster.broker_epoch(broker) for broker in cluster.brokers}
        for one in cluster.brokers:
            for other in cluster.brokers:
                if one < other and one % 2 != other % 2:
                    cluster.cut(f"broker-{one}", f"broker-{other}")
        await asyncio.sleep(8)
        assert {broker: cluster.broker_epoch(broker) for broker in cluster.brokers} == epochs

    racks = {broker: "ab"[broker % 2] for broker in range(1, brokers + 1)}
    run(scenario, brokers=brokers, racks=racks, detection="evidence")


def test_two_that_do_not_hear_a_broker_are_no_match_for_two_that_do() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await create_topic(cluster, [3, 1, 2])
        epoch = cluster.broker_epoch(3)
        for other in (4, 5):
            cluster.cut("broker-3", f"broker-{other}")
            cluster.simulation.network.reject(f"broker-{other}", "broker-3", 1.0)
        await asyncio.sleep(8)
        assert cluster.broker_epoch(3) == epoch and verdicts(cluster) == {}

    run(scenario, brokers=5, detection="evidence")


@pytest.mark.parametrize("seed", range(1, 5))
def test_two_verdicts_at_once_do_not_end_all_that_are_in_sync_where_that_loses_records(seed: int) -> None:
    """Each of the two finds the other one registered, unless one session is ended at a time."""

    async def scenario(cluster: SimulatedCluster) -> None:
        configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        partition = await create_topic(cluster, [4, 5, 3], **configs)
        cluster.kill(3)
        await cluster.until(lambda: cluster.partition_state(partition).isr == (4, 5), "an ISR of two", 60)  # type: ignore[union-attr]
        for other in (4, 5):
            cluster.cut("broker-3", f"broker-{other}")
        await cluster.start(3)
        epochs = {broker: cluster.broker_epoch(broker) for broker in (4, 5)}
        for ender, victim in ((1, 4), (2, 5)):
            epoch = epochs[victim]
            assert epoch is not None
            carry_out(cluster.brokers[ender], Verdict(victim, epoch, Evidence.SILENT))
        for _ in range(2000):
            await asyncio.sleep(0.0005)
            assert any(cluster.broker_epoch(broker) == epoch for broker, epoch in epochs.items())
            assert not {3} & set(cluster.partition_state(partition).isr)  # type: ignore[union-attr]
        assert outcomes(cluster)[Outcome.DEFERRED]

    run(scenario, brokers=5, seed=seed, detection="evidence")


def test_a_verdict_is_not_carried_out_once_its_other_witness_has_taken_it_back() -> None:
    """ZooKeeper answers late; meanwhile the victim is heard again by one of the two."""

    async def scenario(cluster: SimulatedCluster) -> None:
        victim = controller(cluster)
        others = [each for each in cluster.brokers if each != victim]
        epoch = cluster.broker_epoch(victim)
        isolate(cluster, victim)
        for other in others:
            store = cluster.brokers[other].store
            assert store is not None
            store.lag_s = 0.2
        await cluster.until(lambda: verdicts(cluster) == {Evidence.SILENT: 2}, "the verdicts", 5)
        cluster.heal(f"broker-{victim}", f"broker-{others[1]}")
        await asyncio.sleep(8)
        assert cluster.broker_epoch(victim) == epoch
        assert Outcome.ENDED not in outcomes(cluster)

    run(scenario, detection="evidence")


def test_who_only_observes_has_its_leadership_proven_beside_those_that_end_sessions() -> None:
    """Its peers have its password, and end its session before it notices anything."""

    async def scenario(cluster: SimulatedCluster) -> None:
        observed = cluster.brokers[1].app
        assert observed is not None and observed.serving is not None
        assert observed.serving.parts.leadership.is_needed

    run(scenario, detection="observe")
