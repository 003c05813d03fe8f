"""Disks lose what was not synced, tear and turn bits, fill up, fail and are slow."""

from __future__ import annotations

import errno
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.protocol.record_batches.records import iter_batches
from kafkalite.storage.checkpoints import HIGH_WATERMARK, RECOVERY_POINT
from kafkalite.testing.workloads.workload import Workload
from tests.system.battery.shim import Shim
from tests.system.scenario import Scenario

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

SEGMENTS = {"segment.bytes": "100000"}
FULL_BYTES = 24 * 1024 * 1024


@pytest.fixture(scope="module")
def shims(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Shim]:
    """Each broker on a disk that a test can spoil."""
    made = {}
    for broker in cluster.brokers.values():
        made[broker.id] = Shim(tmp_path_factory.mktemp("shim"))
        made[broker.id].load_into(broker)
        cluster.restart(broker.id)
    return made


@pytest.fixture
def whole(shims: dict[int, Shim]) -> Iterator[dict[int, Shim]]:
    yield shims
    for shim in shims.values():
        shim.set()


def killed(scenario: Scenario, victims: list[int]) -> dict[int, int]:
    epochs = {victim: scenario.facts.broker_epoch(victim) for victim in victims}
    for victim in victims:
        scenario.cluster.broker(victim).kill()
    return epochs


def back(scenario: Scenario, epochs: dict[int, int]) -> None:
    for victim in epochs:
        scenario.cluster.broker(victim).start()
    for victim, epoch in epochs.items():
        scenario.cluster.broker(victim).wait_started(120)
        scenario.wait_registered_again(victim, epoch, 60)


def replica(scenario: Scenario, broker_id: int, topic: str, partition: int = 0) -> Path:
    return scenario.cluster.broker(broker_id).log_dir / f"{topic}-{partition}"


def last_segment(directory: Path) -> Path:
    return max(directory.glob("*.log"))


def batch_ends(segment: Path) -> list[int]:
    """Where each batch of a segment ends in its file."""
    return [batch.end for batch in iter_batches(segment.read_bytes())]


def lose_tail(segment: Path, rng: random.Random) -> None:
    """What a power loss leaves of a file that nobody synced: any number of its bytes, the rest gone or zeros."""
    size = segment.stat().st_size
    kept = rng.randrange(size // 2, size)
    with segment.open("r+b") as file:
        file.truncate(kept)
        if rng.random() < 0.5:
            file.truncate(size)
    for index in (".index", ".timeindex"):
        if rng.random() < 0.5:
            segment.with_suffix(index).unlink(missing_ok=True)


def test_power_is_lost_at_one_replica(scenario: Scenario, rng: random.Random) -> None:
    """What it had not synced is gone; the others have it, so nothing is lost, and it never leads with less."""
    workload = scenario.start_workload(scenario.create_topic(3, config=SEGMENTS), 3)
    for _ in range(4):
        victim = rng.choice(scenario.cluster.broker_ids)
        epochs = killed(scenario, [victim])
        for partition in range(3):
            lose_tail(last_segment(replica(scenario, victim, workload.topic, partition)), rng)
        scenario.wait_led_by_others(workload.topic, {victim}, 60)
        back(scenario, epochs)
        scenario.wait_replicated(workload.topic, 60)
        workload.wait_flowing(60)
    scenario.verdict(workload)


def test_power_is_lost_everywhere(scenario: Scenario, rng: random.Random) -> None:
    """What nobody had synced is lost, that is Kafka's policy too; what is left is whole, in order, and the same everywhere."""
    workload = scenario.start_workload(scenario.create_topic(3, config=SEGMENTS), 3)
    for writer in workload.writers:
        writer.finish(60)
    epochs = killed(scenario, scenario.cluster.broker_ids)
    for victim in epochs:
        for partition in range(3):
            lose_tail(last_segment(replica(scenario, victim, workload.topic, partition)), rng)
    back(scenario, epochs)
    scenario.wait_replicated(workload.topic, 60)
    for reader in workload.readers:
        reader.finish()
    verdict = workload.finish(scenario._history_path(workload), 10)
    allowed = {"C1", "C7", "C9"}
    assert not [each for each in verdict.violations if each.rule not in allowed], verdict
    assert verdict.judged["C8"], verdict


def filled(scenario: Scenario) -> Workload:
    topic = scenario.create_topic(1, config=SEGMENTS)
    workload = scenario.start_workload(topic, 1)
    wait_until(lambda: workload.writers[0].acknowledged > 1500, "some segments", 120)
    return workload


def spoiled(scenario: Scenario, workload: Workload, victim: int, spoil: Callable[[Path], object]) -> None:
    """Kill a broker, spoil its replica, and let it come back: it gets from others what it lost."""
    epochs = killed(scenario, [victim])
    scenario.wait_led_by_others(workload.topic, {victim}, 60)
    spoil(replica(scenario, victim, workload.topic))
    back(scenario, epochs)
    scenario.wait_replicated(workload.topic, 120)
    workload.wait_flowing(60)


def test_a_tail_is_torn_at_any_byte(scenario: Scenario, rng: random.Random) -> None:
    """Recovery keeps the longest row of whole batches, and the follower fetches the rest."""
    workload = filled(scenario)
    victim = rng.choice(scenario.cluster.broker_ids)
    for _ in range(6):

        def tear(directory: Path) -> None:
            segment = last_segment(directory)
            ends = batch_ends(segment)
            begin = ends[-4] if len(ends) > 3 else 0
            with segment.open("r+b") as file:
                file.truncate(rng.randrange(begin, ends[-1]) if ends else 0)

        spoiled(scenario, workload, victim, tear)
    scenario.verdict(workload)


@pytest.mark.parametrize("what", ["*.log", "*.index", "*.timeindex", "leader-epoch-checkpoint", "*.snapshot"])
def test_bits_turn(scenario: Scenario, rng: random.Random, what: str) -> None:
    """In the last segment of a broker that was killed, which is recovered, and in all that can be made again."""
    workload = filled(scenario)
    victim = rng.choice(scenario.cluster.broker_ids)

    def turn(directory: Path) -> None:
        files = [path for path in sorted(directory.glob(what)) if path.stat().st_size]
        for path in files[-1:] if what == "*.log" else files:
            data = bytearray(path.read_bytes())
            for _ in range(3):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            path.write_bytes(data)

    spoiled(scenario, workload, victim, turn)
    scenario.verdict(workload)


def test_files_that_a_crash_leaves(scenario: Scenario, rng: random.Random) -> None:
    """Zeros behind the end, missing and long indexes, an empty segment, files of swaps and deletions that were interrupted."""
    workload = filled(scenario)
    victim = rng.choice(scenario.cluster.broker_ids)

    def zeros(directory: Path) -> None:
        with last_segment(directory).open("ab") as file:
            file.write(bytes(4096))

    def no_index(directory: Path) -> None:
        for path in (*directory.glob("*.index"), *directory.glob("*.timeindex")):
            path.unlink()

    def long_index(directory: Path) -> None:
        for path in directory.glob("*.index"):
            with path.open("ab") as file:
                file.write(b"\xff" * 800)

    def strays(directory: Path) -> None:
        segment = last_segment(directory)
        for suffix in (".deleted", ".cleaned"):
            shutil.copy(segment, directory / f"{segment.name}{suffix}")
        (directory / "snapshot.tmp").write_bytes(b"x")

    def empty(directory: Path) -> None:
        last_segment(directory).write_bytes(b"")

    for spoil in (zeros, no_index, long_index, strays, empty):
        spoiled(scenario, workload, victim, spoil)
    scenario.verdict(workload)


@pytest.mark.parametrize("name", [RECOVERY_POINT, HIGH_WATERMARK])
@pytest.mark.parametrize("how", ["stale", "from the future", "missing", "garbage"])
def test_a_checkpoint_is_wrong(scenario: Scenario, rng: random.Random, name: str, how: str) -> None:
    workload = filled(scenario)
    victim = rng.choice(scenario.cluster.broker_ids)

    def spoil(directory: Path) -> None:
        path = directory.parent / name
        if how == "missing":
            path.unlink(missing_ok=True)
        elif how == "garbage":
            path.write_bytes(rng.randbytes(100))
        else:
            path.write_text(f"0\n1\n{workload.topic} 0 {0 if how == 'stale' else 10**9}\n")

    spoiled(scenario, workload, victim, spoil)
    scenario.verdict(workload)


def test_a_disk_is_slow(scenario: Scenario, whole: dict[int, Shim]) -> None:
    """Each write of one follower takes a fifth of a second: it leaves the ISR or keeps up, and the others do not wait for it for ever."""
    workload = scenario.start_workload(scenario.create_topic(3), 3, request_timeout_ms=10_000)
    victim = next(id for id in scenario.facts.brokers() if id != scenario.facts.controller())
    whole[victim].set(write_delay_us=200_000, sync_delay_us=500_000, path=f"/{workload.topic}-")
    wait_until(lambda: whole[victim].strikes > 30, "slow calls", 120)
    workload.wait_flowing(120)
    whole[victim].set()
    scenario.wait_replicated(workload.topic, 120)
    scenario.verdict(workload)


@pytest.mark.parametrize("fault", ["write", "half a write", "sync"])
def test_a_disk_fails(scenario: Scenario, whole: dict[int, Shim], fault: str) -> None:
    """The directory is out of service from the first failure on, and what was not written is not acknowledged; other brokers lead."""
    workload = scenario.start_workload(scenario.create_topic(3, config=SEGMENTS), 3)
    topic = workload.topic
    victim = scenario.facts.leaders(topic)[0]
    before = whole[victim].strikes
    fields = (
        {"sync_errno": errno.EIO}
        if fault == "sync"
        else {"write_errno": errno.EIO, "short_writes": int(fault != "write")}
    )
    whole[victim].set(**fields, path=f"/{topic}-")
    wait_until(lambda: whole[victim].strikes > before, "a failure of the disk", 120)
    scenario.wait_led_by_others(topic, {victim}, 60)
    workload.wait_flowing(60)
    whole[victim].set()
    epoch = scenario.facts.broker_epoch(victim)
    scenario.cluster.kill(victim)
    scenario.start_broker(victim)
    scenario.wait_registered_again(victim, epoch, 60)
    scenario.wait_replicated(topic, 120)
    scenario.verdict(workload)


def test_a_disk_is_full(scenario: Scenario, tmp_path: Path) -> None:
    """Of one broker: what it leads takes nothing more, the rest goes on, and so does it when there is room."""
    victim = max(scenario.cluster.broker_ids)
    broker = scenario.cluster.broker(victim)
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={FULL_BYTES}", "tmpfs", small], check=True)
    scenario.cluster.stop(victim)
    old = broker.properties["log.dirs"]
    shutil.copytree(old, small / "logs")
    broker.properties["log.dirs"] = str(small / "logs")
    try:
        epoch = 0
        scenario.start_broker(victim)
        scenario.wait_registered_again(victim, epoch, 60)
        topic = scenario.create_topic(3, config=SEGMENTS)
        workload = scenario.start_workload(topic, 3)
        ballast = small / "ballast"
        free = shutil.disk_usage(small).free
        with ballast.open("wb") as file:
            file.write(bytes(max(0, free - 300_000)))
        log = broker.log_path
        wait_until(lambda: "No room left" in log.read_text(errors="replace"), "a full disk", 120)
        led_elsewhere = [number for number, leader in enumerate(scenario.facts.leaders(topic)) if leader != victim]
        since_ns = workload.recorder.now_ns()
        wait_until(
            lambda: all(workload.writers[0].acknowledged_on(each, since_ns) for each in led_elsewhere),
            "acknowledgements where others lead",
            60,
        )
        ballast.unlink()
        workload.wait_flowing(60)  # without a restart: a full disk is no broken one
        scenario.wait_replicated(topic, 120)
        scenario.verdict(workload)
    finally:
        scenario.cluster.broker(victim).kill()
        broker.properties["log.dirs"] = old
        for left in small.glob("logs/*"):
            target = Path(old) / left.name
            if target.is_dir():
                shutil.rmtree(target)
            if left.is_dir():
                shutil.copytree(left, target)
            else:
                shutil.copy(left, target)
        subprocess.run(["umount", "-l", small], check=True)
