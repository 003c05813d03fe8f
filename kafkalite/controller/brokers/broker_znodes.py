"""Registrations of brokers as `RegisteredBroker`, read with a watch."""

from __future__ import annotations

import logging

from kafkalite.controller.cluster_state import RegisteredBroker
from kafkalite.controller.steps import Steps, Znode, list_children, read
from kafkalite.types import BrokerId, Endpoint
from zk import paths
from zk.znodes import BrokerRegistration, MalformedZnodeError

logger = logging.getLogger(__name__)


def read_brokers() -> Steps[dict[BrokerId, RegisteredBroker]]:
    """Return all registered brokers; one that stops between the listing and the reading is left out."""
    names = yield from list_children(paths.BROKER_IDS, watch=True)
    broker_ids = sorted(number for name in names if (number := paths.broker_id(name)) is not None)
    znodes = yield from read([paths.broker(broker_id) for broker_id in broker_ids], watch=True)
    found = (_decode(broker_id, znode) for broker_id, znode in zip(broker_ids, znodes, strict=True))
    return {broker.broker_id: broker for broker in found if broker is not None}


def read_broker(broker_id: BrokerId) -> Steps[RegisteredBroker | None]:
    """Return one registered broker, None when it is absent or its registration unreadable."""
    (znode,) = yield from read((paths.broker(broker_id),), watch=True)
    return _decode(broker_id, znode)


def _decode(broker_id: BrokerId, znode: Znode | None) -> RegisteredBroker | None:
    if znode is None:
        return None
    data, stat = znode
    try:
        registration = BrokerRegistration.decode(data)
    except MalformedZnodeError as problem:
        logger.error("%s is unreadable and ignored until the broker rewrites it: %s", paths.broker(broker_id), problem)
        return None
    return RegisteredBroker(
        broker_id,
        stat.czxid,
        tuple(Endpoint(*endpoint) for endpoint in registration.endpoints),
        registration.rack,
        registration.features,
    )
