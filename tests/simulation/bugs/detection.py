"""Bugs of failure detection: living brokers that are taken for dead, and what is ended then."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.patching import Bug, Edit

_CARRIED_OUT: Final = "kafkalite.broker.failure_detection.failure_detection"
_RESTRAINTS: Final = "kafkalite.broker.failure_detection.restraints"
_DETECTOR: Final = "kafkalite.broker.failure_detection.detector"

DETECTION: Final = (
    Bug(
        "the registration of a broker is deleted instead of ending its session",
        "here: a broker that lives is never told, and the seat of the controller stays",
        (
            Edit(
                _CARRIED_OUT,
                'ending = await self._store.end_session(session.session_id, session.password or b"", _END_S)\n',
                'version = (await self._store.read(f"/brokers/ids/{broker}"))[1].version\n'
                '        await self._store.delete(f"/brokers/ids/{broker}", version)\n'
                "        ending = SessionEnding.ENDED\n",
            ),
        ),
    ),
    Bug(
        "a verdict about an earlier registration ends the present session",
        "here: a broker that is back at once is taken for dead for what its earlier life did",
        (
            Edit(
                _CARRIED_OUT,
                "session.broker_epoch != verdict.broker_epoch or session.password is None",
                "session.password is None",
            ),
        ),
    ),
    Bug(
        "the password of an earlier session is used",
        "here: ZooKeeper refuses to end the session, so the death of its broker is noticed when it times out",
        (
            Edit(
                "kafkalite.broker.failure_detection.peer_sessions",
                "if password is None and before is not None and before.session_id == heartbeat.session_id:",
                "if before is not None and before.password is not None:",
            ),
        ),
    ),
    Bug(
        "brokers that are cut off from most others accuse them",
        "here: two that see nobody but each other end the sessions of all the rest",
        (
            Edit(
                _DETECTOR,
                "return self._has_zookeeper and heard > 0 and is_majority and not (is_split and evidence is Evidence.SILENT)",
                "return self._has_zookeeper and heard > 0",
            ),
        ),
    ),
    Bug(
        "one accuser is enough",
        "here: a firewall between two brokers ends the session of one of them",
        (Edit(_DETECTOR, "if len(others) + 1 < _ACCUSERS:", "if known.accused_of is None:"),),
    ),
    Bug(
        "the only one in sync is taken for dead where that loses records",
        "here: a successor is elected that lacks what was acknowledged, although nobody has died",
        (
            Edit(
                _RESTRAINTS,
                "            if broker in isr and not any(",
                "            if not isr and not any(",
            ),
        ),
    ),
    Bug(
        "who is in sync is asked of the metadata before a verdict",
        "here: a broker that the controller does not reach does not know who leads, and ends the session of the only one in sync",
        (
            Edit(
                _RESTRAINTS,
                "if broker in replicas and len(replicas) > 1",
                "if (known := self._metadata.partition(TopicPartition(topic, number))) and known.leader == broker",
            ),
        ),
    ),
    Bug(
        "a member of the ISR that has died counts before a verdict",
        "here: until the controller has noticed, the last one in sync is not spared, and its successor lacks records",
        (Edit(_RESTRAINTS, "not any(str(other) in registered for other in isr", "not any(isr for other in isr"),),
    ),
    Bug(
        "two brokers end a session at a time",
        "here: each finds the other's victim registered, and all that were in sync are gone",
        (
            Edit(
                "kafkalite.broker.failure_detection.ending_claim",
                "if not await self._take_away(first, victim_session):",
                "if first == victim_session:",
            ),
        ),
    ),
    Bug(
        "a broker is judged though a third one hears it",
        "here: two that do not reach it end the session of a broker that all others hear",
        (
            Edit(
                _DETECTOR,
                "return any(self._find_views(broker, broker_epoch, now_ms).values())",
                "return False",
            ),
            Edit(
                "kafkalite.broker.failure_detection.watchers",
                "return _Answer.HEARD if is_heard else _Answer.NOT_HEARD",
                "return _Answer.NOT_HEARD",
            ),
        ),
    ),
    Bug(
        "two halves of a cluster that have lost each other accuse each other of silence",
        "here: the sessions of all brokers are ended, though all reach ZooKeeper",
        (
            Edit(_DETECTOR, "is_split = lost > 1 and lost >= heard", "is_split = False"),
            Edit(
                "kafkalite.broker.failure_detection.watchers",
                "if heard or 2 * denied > counted:",
                "if counted >= 0:",
            ),
        ),
    ),
)
