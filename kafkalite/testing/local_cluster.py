"""The address by which tests have imported `LocalCluster` since its first release; it lives in `kafkalite.local`."""

from kafkalite.local.cluster import LIVE_CLUSTERS, LocalCluster

__all__ = ["LIVE_CLUSTERS", "LocalCluster"]
