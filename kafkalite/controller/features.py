"""The znode /feature with the cluster's finalized feature levels (KIP-584); a ZooKeeper cluster finalizes none."""

from __future__ import annotations

import logging

from kafkalite.controller.cluster_state import ClusterState
from kafkalite.controller.steps import Steps, read, write
from zk import paths
from zk.store import Create, NodeExistsError, StoreError, Write
from zk.znodes import Feature, FeatureStatus, MalformedZnodeError

logger = logging.getLogger(__name__)


def set_up_feature_versioning(cluster: ClusterState) -> Steps[None]:
    """Set the status in /feature by inter.broker.protocol.version: enabled from 2.7 on, disabled before.

    Finalized levels stay while features are enabled.
    """
    enabled = cluster.settings.inter_broker_protocol_version.manages_features
    (znode,) = yield from read((paths.FEATURE,))
    status = FeatureStatus.ENABLED if enabled else FeatureStatus.DISABLED
    if znode is None:
        (result,) = yield from write((Create(paths.FEATURE, Feature(status).encode()),))
        if isinstance(result, StoreError) and not isinstance(result, NodeExistsError):
            logger.error("%s not created: %r", paths.FEATURE, result)
        return
    try:
        present = Feature.decode(znode[0])
    except MalformedZnodeError as problem:
        logger.error("%s is rewritten: %s", paths.FEATURE, problem)
        present = None
    if present is not None and present.status is status and (enabled or not present.features):
        return
    levels = dict(present.features) if present is not None and enabled else {}
    yield from write((Write(paths.FEATURE, Feature(status, levels).encode(), znode[1].version),))
