"""Bugs of controllers: elections, zombies, and what brokers are told of them."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.patching import Bug, Edit

_ELECTION: Final = "zk.election"
_REPLICAS: Final = "kafkalite.broker.replication.replicas"
_ISR: Final = "kafkalite.controller.isr_changes"
_SEAT: Final = "zk.controller_seat"
_CONTROLLER: Final = "kafkalite.controller.controller"
_DIGESTS: Final = "kafkalite.controller.metadata_digests"
_KNOWN: Final = "kafkalite.controller.known_metadata"

CONTROL: Final = (
    Bug(
        "any live replica is elected",
        "an unclean election that nobody allowed: it may lack committed records",
        (
            Edit(
                _ELECTION,
                "    leader = next((broker for broker in live if broker in isr), None)\n"
                "    if leader is not None:\n"
                "        return ElectionResult(leader, tuple(broker for broker in isr if broker in online), live)\n"
                "    if unclean_allowed",
                "    leader = next((broker for broker in reversed(live)), None)\n"
                "    if leader is not None:\n"
                "        return ElectionResult(leader, (leader,), live)\n"
                "    if unclean_allowed",
            ),
        ),
    ),
    Bug(
        "elections are unclean although that is forbidden",
        "KAFKA-1028: when the ISR is gone somebody else leads, without its records",
        (Edit(_ELECTION, "    if unclean_allowed and live:\n", "    if live:\n"),),
    ),
    Bug(
        "an election does not raise the leader epoch",
        "two leaders in one epoch: nobody is fenced",
        (
            Edit(
                "kafkalite.controller.machines.partition_state_machine",
                "            leader_epoch=current.leader_epoch + 1,\n",
                "            leader_epoch=max(current.leader_epoch, 1),\n",
            ),
        ),
    ),
    Bug(
        "a zombie controller writes",
        "KAFKA-6082: its writes to ZooKeeper are not tied to its epoch",
        (Edit(_SEAT, "Check(paths.CONTROLLER_EPOCH, seat.epoch_zk_version)", "Check(paths.CONTROLLER_EPOCH, -1)"),),
    ),
    Bug(
        "two controllers have one epoch",
        "the epoch is not raised with the seat, so brokers obey both",
        (
            Edit(
                _SEAT,
                "    claimed = Seat(epoch + 1, stat.version + 1)\n",
                "    claimed = Seat(max(epoch, 1), stat.version + 1)\n",
            ),
        ),
    ),
    Bug(
        "brokers obey a controller of an older epoch",
        "KAFKA-1393: requests of a zombie controller undo what its successor decided",
        (
            Edit(
                _REPLICAS,
                "        if request.controller_epoch < self.controller_epoch:\n",
                "        if request.controller_epoch < 0:\n",
            ),
        ),
    ),
    Bug(
        "a broker obeys what was meant for its earlier life",
        "KIP-380 (KAFKA-7235): a request that comes late makes the restarted broker lead what it must not",
        (
            Edit(
                _REPLICAS,
                "if request.broker_epoch != ANY_BROKER_EPOCH and request.broker_epoch < self.broker_epoch:",
                "if request.broker_epoch < ANY_BROKER_EPOCH:",
            ),
        ),
    ),
    Bug(
        "a broker serves before it is registered",
        "here (f52ce08): a controller reaches it with what was meant for its earlier life",
        (
            Edit(
                "kafkalite.broker.app",
                "        await again(register)\n"
                "        # Not before: what the controller sent to this broker's earlier life is known by the older broker epoch.\n"
                "        await server.serve()\n",
                "        await server.serve()\n        await again(register)\n",
            ),
        ),
    ),
    Bug(
        "a broker that comes back quickly is not noticed",
        "KAFKA-1120: within its session it restarts, and nobody tells it what it leads",
        (
            Edit(
                "kafkalite.controller.brokers.broker_changes",
                "if registered[b].epoch > known[b].epoch)",
                "if registered[b].epoch < 0)",
            ),
        ),
    ),
    Bug(
        "the ISR of an old leader is accepted",
        "before KIP-497: what a deposed leader proposes overwrites the state of its successor",
        (
            Edit(_ISR, "    if wanted.leader_epoch < current.leader_epoch:\n", "    if wanted.leader_epoch < 0:\n"),
            Edit(
                _ISR,
                "    if wanted.partition_epoch < current.partition_epoch:\n",
                "    if wanted.partition_epoch < 0:\n",
            ),
            Edit(
                _ISR,
                "        partition_epoch=wanted.partition_epoch,\n",
                "        partition_epoch=current.partition_epoch,\n",
            ),
        ),
    ),
    Bug(
        "a dead broker joins the ISR",
        "KIP-903 (KAFKA-14139): its restarted successor may lack what its earlier life had fetched",
        (
            Edit(
                _ISR, "    if not all(cluster.is_live(member) for member in wanted.isr):\n", "    if not wanted.isr:\n"
            ),
        ),
    ),
    Bug(
        "a dead leader stays the leader",
        "the failure of a broker does not make its partitions leaderless",
        (
            Edit(
                "kafkalite.controller.brokers.broker_changes",
                "    yield from on_replicas_become_offline(cluster, cluster.replicas_of_brokers(brokers))\n",
                "    yield from ()\n",
            ),
        ),
    ),
    Bug(
        "nobody watches the seat of the controller",
        "KAFKA-3083 and its like: when /controller goes, by a death or by hand, nobody stands for election",
        (
            Edit(
                _CONTROLLER,
                "await read_controller(self._store, self._on_seat_change)",
                "await read_controller(self._store)",
            ),
        ),
    ),
    Bug(
        "a controller that lost its seat goes on",
        "/controller deleted by hand, or taken by another: the former controller does not resign",
        (
            Edit(
                _CONTROLLER,
                "        if self._term is not None and self.active_controller_id != self.broker_id:\n"
                "            self._resign()\n",
                "",
            ),
            Edit(
                _CONTROLLER,
                "        if self._term is None and self.active_controller_id in",
                "        if self.active_controller_id in",
            ),
        ),
    ),
    Bug(
        "a session that ended leaves the controller in office",
        "KAFKA-5642: it goes on deciding until somebody tells it",
        (
            Edit(
                _CONTROLLER,
                "        if self._term is not None:\n"
                "            self._term.end()\n"
                "        self._queue.clear()\n"
                "        self._queue.put(events.Expire())\n",
                "        self._queue.clear()\n",
            ),
        ),
    ),
    Bug(
        "a new controller does not look for partitions without a leader",
        "it takes over after its predecessor died in the middle of an election",
        (
            Edit(
                "kafkalite.controller.failover",
                "                cluster.set_status(partition, PartitionStatus.OFFLINE)\n",
                "                cluster.set_status(partition, PartitionStatus.ONLINE)\n",
            ),
        ),
    ),
    Bug(
        "a reassignment is complete before its target is in sync",
        "replicas that have the records are deleted while the new ones are still empty",
        (
            Edit(
                "kafkalite.controller.topics.reassignment",
                "if not assignment.reassigning or (leadership is not None and set(assignment.target) <= set(leadership.isr)):",
                "if leadership is not None:",
            ),
        ),
    ),
    Bug(
        "a reassignment ends twice",
        "KAFKA-8527 and its like: whatever changed its ISR is completed again",
        (
            Edit(
                "kafkalite.controller.topics.reassignment",
                "    moving = sorted(cluster.reassigning.intersection(partitions))\n",
                "    moving = sorted(partitions)\n",
            ),
        ),
    ),
    Bug(
        "nobody watches the registrations of brokers",
        "KAFKA-2719 and here (3c504de), where an event overtook the answer that armed the watch: deaths are never heard of",
        (
            Edit(
                "kafkalite.controller.brokers.broker_znodes",
                "    names = yield from list_children(paths.BROKER_IDS, watch=True)\n",
                "    names = yield from list_children(paths.BROKER_IDS)\n",
            ),
        ),
    ),
    Bug(
        "a digest of metadata leaves out who is in sync",
        "here: a broker that missed a change of the ISR proves to a new controller that it knows everything",
        (
            Edit(_DIGESTS, "        state.partition_epoch,\n", ""),
            Edit(_DIGESTS, "        len(isr),\n        *isr,\n", ""),
        ),
    ),
    Bug(
        "a broker that proves nothing is taken to know everything",
        "here: one that restarted, or did not answer in time, is not sent what a new controller's own broker knows",
        (
            Edit(
                _KNOWN,
                "epoch != broker.epoch or not self._own:\n            return NOTHING_PROVEN\n",
                "epoch != broker.epoch or not self._own:\n            return frozenset()\n",
            ),
        ),
    ),
    Bug(
        "what differs from the reference is not sent",
        "here: a new controller's elections and shorter ISRs reach no broker that has proven what it knows",
        (Edit(_KNOWN, "or known.partitions.get(index) != state\n", "or index not in known.partitions\n"),),
    ),
)
