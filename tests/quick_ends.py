"""Clusters of the tests end by SIGKILL: what they wrote goes with them, so nobody needs it to be handed over and written down.

    use_quick_ends()    from now on, for clusters whose directory is a temporary one of their own.

How brokers stop is seen where it is the question: at each stop and restart of a test, at `close`, and at the end of what users run
(`kafkalite cluster up`, the plugin, units and images).
"""

from __future__ import annotations

from kafkalite.local.cluster import LocalCluster


def use_quick_ends() -> None:
    end = LocalCluster.__exit__

    def end_quickly(cluster: LocalCluster, *problem: object) -> None:
        if cluster._given_directory is None:
            for broker in cluster.brokers.values():
                broker.kill()
        end(cluster, *problem)

    setattr(LocalCluster, "__exit__", end_quickly)  # noqa: B010
