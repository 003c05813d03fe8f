"""The ZooKeeper-mode controller: decides leaders and replicas, writes them to ZooKeeper and tells the brokers.

Decisions are procedures (`steps`) over the cluster state; `controller` owns the one task that runs them.
"""
