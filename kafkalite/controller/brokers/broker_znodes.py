"""Registrations of brokers as `RegisteredBroker`, read with a watch."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafkalite.controller.cluster_state import RegisteredBroker
from kafkalite.controller.steps import Steps, Znode, list_children, read
from kafkalite.types import BrokerId, Endpoint
from zk import paths
from zk.znodes import BrokerRegistration, MalformedZnodeError

logger = logging.getLogger(__name__)


def read_brokers(known: Mapping[BrokerId, RegisteredBroker]) -> Steps[dict[BrokerId, RegisteredBroker]]:
    """Return all registered brokers; one that stops between the listing and the reading is left out.

    `known` were read before, so that their znodes are watched. Those that have not changed are read all at once, and not decoded again.
    """
    names = yield from list_children(paths.BROKER_IDS, watch=True)
    broker_ids = sorted(number for name in names if (number := paths.broker_id(name)) is not None)
    watched = [broker_id for broker_id in broker_ids if broker_id in known]
    found: dict[BrokerId, RegisteredBroker | None] = {}
    for broker_id, znode in zip(watched, (yield from read([paths.broker(each) for each in watched])), strict=True):
        broker = known[broker_id]
        if znode is not None and (znode[1].czxid, znode[1].version) == (broker.epoch, broker.version):
            found[broker_id] = broker
    changed = [broker_id for broker_id in broker_ids if broker_id not in found]
    znodes = yield from read([paths.broker(each) for each in changed], watch=True)
    found |= {broker_id: _decode(broker_id, znode) for broker_id, znode in zip(changed, znodes, strict=True)}
    return {broker_id: registered for broker_id in broker_ids if (registered := found[broker_id]) is not None}


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
        stat.version,
    )
