"""The address by which tests have imported `Cluster` since its first release; it lives in `kafkalite.local`."""

from kafkalite.local.contract import Cluster

__all__ = ["Cluster"]
