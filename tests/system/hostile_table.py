"""`python -m tests.system.hostile_table`: what each frame of `test_hostile_frames` costs a broker, as a table.

"held" is what the broker's own processor time lets another client wait at most, the least of some tries: a busy machine lets it wait
longer, which is "waited".
"""

from __future__ import annotations

from kafkalite.local.cluster import LocalCluster
from tests.system.test_hostile_frames import REFUSED, SERVED, TRIES, cost_of


def main() -> None:
    with LocalCluster(brokers=1) as cluster:
        for hostile in (*REFUSED, *SERVED):
            frame = hostile.frame()
            held_s, waited_s, grown_bytes, answered = min(cost_of(cluster.broker(1), frame) for _ in range(TRIES))
            print(
                f"{hostile}: {len(frame) / 1e6:.1f} MB, {'answered' if answered else 'closed'}, held {held_s * 1000:.0f} ms, "
                f"waited {waited_s * 1000:.0f} ms, memory {grown_bytes / 1e6:+.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
