"""`python -m tests.system.hostile_table`: what each frame of `test_hostile_frames` costs a broker, as a table.

"held" is what the broker's own processor time lets another client wait at most, the least of some tries: a busy machine lets it wait
longer, which is "waited".
"""

from __future__ import annotations

from kafkalite.local.broker_process import BrokerProcess
from kafkalite.local.cluster import LocalCluster
from tests.fuzz.beside import ClientBeside, forget_peak, peak_bytes
from tests.system.test_hostile_frames import REFUSED, SERVED, TRIES, send


def main() -> None:
    with LocalCluster(brokers=1) as cluster:
        for hostile in (*REFUSED, *SERVED):
            frame = hostile.frame()
            held_s, waited_s, grown_bytes, answered = min(_tried(cluster.broker(1), frame) for _ in range(TRIES))
            print(
                f"{hostile}: {len(frame) / 1e6:.1f} MB, {'answered' if answered else 'closed'}, held {held_s * 1000:.0f} ms, "
                f"waited {waited_s * 1000:.0f} ms, memory {grown_bytes / 1e6:+.0f} MB",
                flush=True,
            )


def _tried(broker: BrokerProcess, frame: bytes) -> tuple[float, float, int, bool]:
    other = ClientBeside(broker)
    other.start()
    other.wait_answers(3)
    other.forget()
    before = broker.resident_bytes()
    forget_peak(broker)
    answered = send(broker, frame)
    other.wait_answers(3)
    other.end()
    return other.longest_held.held_s, other.longest.waited_s, peak_bytes(broker) - before, answered


if __name__ == "__main__":
    main()
