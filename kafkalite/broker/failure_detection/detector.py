"""Decides when a broker is taken for dead, by what it and others show; no I/O, time as an argument.

What is believed of a neighbour is about one registration of it, its broker epoch: another epoch is another session, about which nothing is
known. This broker accuses a neighbour

- of REFUSED, when an established connection to it broke and all its listeners refused connections in `_REFUSALS` rounds since;
- of SILENT, when no sign of life came from it for `silence_ms`, without the time in which this process stood still itself. While its
  system acknowledges what is sent or accepts new connections, its host lives, and its process may be stopped or wait for a processor: it
  has `_STANDING_STILL` times as long. That a connection is not acknowledged proves little, because it may be lost alone (half-open). One
  sign of that kind within this time takes the accusation back: on a busy machine this process may have been too slow to see others.

A verdict takes two accusers of the same registration, one of which is this broker; it is REFUSED if both are. The rules of restraint:

1. Who has no connection to ZooKeeper, or has lost too many others, accuses nobody: it may be the one that is cut off (`_may_accuse`). So
   the last two brokers of a cluster never accuse each other.
2. Nobody is judged whom a third broker hears.
3. Between two verdicts lie `MIN_BETWEEN_VERDICTS_MS`, so that a wrong rule cannot end a whole cluster before somebody looks.
4. A detector that was wrong, because its victim came back in the same process, needs twice the refusals and the silence from then on,
   up to `_MAX_PATIENCE` times.

What needs ZooKeeper's data to be decided (elections that would lose records or could elect nobody) is up to whoever carries a verdict out.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafkalite.broker.failure_detection.detection_settings import DetectionSettings
from kafkalite.broker.failure_detection.evidence import Accusation, Evidence, Sighting
from kafkalite.types import BrokerId

logger = logging.getLogger("kafkalite.broker.failure_detection")

NEIGHBOURS_ON_EACH_SIDE: Final = 2
"""A broker watches so many others before and behind it in the ring: each has four witnesses, whatever the size of the cluster."""

MIN_BETWEEN_VERDICTS_MS: Final = 250
_REFUSALS: Final = 2
_MAX_PATIENCE: Final = 16
_MAX_DOUBLINGS: Final = 4
"""Of the pause before a verdict that was taken back is given again."""
_ACCUSERS: Final = 2
_MIN_HEARTBEATS_MISSED: Final = 3
"""Silence is at least so many heartbeats, whatever the setting."""
_STANDING_STILL: Final = 4
"""Brokers of a machine whose cores were all busy stood still for 1.9 s: by default they have 4.8 s."""
_STRAGGLERS_MS: Final = 1000
"""What a dead process had sent before its end may arrive for so long after the verdict."""


class Verdict(NamedTuple):
    """A registration of a broker whose session is to end, and why."""

    broker_id: BrokerId
    broker_epoch: int
    evidence: Evidence


class _Judged(NamedTuple):
    """The latest verdict about a broker, the incarnation of its victim, and when it was."""

    verdict: Verdict
    incarnation: bytes
    at_ms: float
    is_deferred: bool = False
    """True if others were at work. If it turns out that they were wrong, this broker was, too."""


@dataclass(slots=True)
class _Neighbour:
    """What is known of a neighbour in its present registration."""

    broker_epoch: int
    incarnation: bytes
    last_sign_ms: float
    is_connected: bool = False
    """True while there is a connection from here on which it has answered."""
    was_connected: bool = False
    refusals: int = 0
    accused_of: Evidence | None = None
    accepted_ms: float = float("-inf")
    """When one of its listeners last accepted a connection while it was silent."""
    reported: dict[BrokerId, tuple[Evidence, float]] = field(default_factory=dict)
    """Its other accusers: of what, and when they said so last."""
    is_judged: bool = False
    judged_ms: float = float("-inf")
    """When it was judged last."""
    withdrawals: int = 0
    """How many verdicts were taken back since it was heard last; each makes the pause before the next one longer."""
    is_leaving: bool = False
    """True once it has said that it stops; it is accused of nothing any more, and its session ends as it will."""


class FailureDetector:
    """The beliefs of one broker about its neighbours. `now_ms` is monotonic everywhere."""

    def __init__(self, broker_id: BrokerId, settings: DetectionSettings, now_ms: float) -> None:
        self._broker_id, self._settings = broker_id, settings
        self._brokers: tuple[BrokerId, ...] = ()
        self._ring_neighbours: Sequence[BrokerId] = ()
        self.neighbours: Sequence[BrokerId] = ()
        """The brokers that this one watches: the nearest in the ring, and former ones that are suspected."""
        self._neighbours: dict[BrokerId, _Neighbour] = {}
        self._judged: dict[BrokerId, _Judged] = {}
        self._witnesses: dict[BrokerId, tuple[float, Mapping[BrokerId, Sighting]]] = {}
        """Whom the others watch, by what each said last, and when that was."""
        self._ticked_ms = now_ms
        self._last_verdict_ms = float("-inf")
        self._has_zookeeper = True
        self.patience = 1
        """How many times the evidence is needed that a detector without a wrong verdict needs."""

    # What is heard

    def set_brokers(self, brokers: Iterable[BrokerId], racks: Mapping[BrokerId, str] | None = None) -> None:
        """Take over which brokers are registered, and the racks of those that have one; what is known of others is forgotten.

        So is what was known of a broker that is no neighbour any more: nobody asks it for signs of life, and if it is one again later, its
        silence meanwhile would be evidence. Whoever is suspected stays a neighbour as long as it is registered: the ring shifts when one
        of several dead brokers is gone, and who watches the others then has never had a connection to them.
        """
        registered = _arrange_ring({*brokers, self._broker_id}, racks or {})
        if registered != self._brokers:
            self._brokers, self._ring_neighbours = registered, find_neighbours(registered, self._broker_id)
        suspected = {each for each in self._neighbours if each in self._brokers and self.is_suspected(each)}
        self.neighbours = sorted(suspected.union(self._ring_neighbours))
        for broker in [each for each in self._neighbours if each not in self.neighbours]:
            del self._neighbours[broker]
        for broker in [each for each in self._witnesses if each not in self._brokers]:
            del self._witnesses[broker]

    def note_sign_of_life(
        self, broker: BrokerId, broker_epoch: int, incarnation: bytes, now_ms: float, *, answered: bool
    ) -> Verdict | None:
        """Note what a broker itself has sent: an answer to this broker (`answered`), or a heartbeat.

        Returns the verdict about it that this proves to be wrong, if there is one.
        """
        known = self._neighbours.get(broker)
        if known is not None and broker_epoch < known.broker_epoch:
            return None  # it was under way when the broker registered again
        if known is None or known.broker_epoch != broker_epoch:
            known = self._neighbours[broker] = _Neighbour(broker_epoch, incarnation, now_ms)
        known.last_sign_ms = now_ms
        if answered:
            known.is_connected = known.was_connected = True
            known.refusals = known.withdrawals = 0
        if answered or known.accused_of is Evidence.SILENT:
            known.accused_of = None
        return self._find_wrong_verdict(broker, known, now_ms)

    def _find_wrong_verdict(self, broker: BrokerId, known: _Neighbour, now_ms: float) -> Verdict | None:
        judged = self._judged.get(broker)
        if judged is None:
            known.is_judged = False
            return None
        verdict, incarnation, at_ms, is_deferred = judged
        is_same = known.broker_epoch == verdict.broker_epoch
        if is_same and now_ms - at_ms < _STRAGGLERS_MS:
            return None
        del self._judged[broker]
        known.is_judged = False
        if incarnation != known.incarnation or (is_same and is_deferred):
            return None
        self.patience = min(2 * self.patience, _MAX_PATIENCE)
        logger.warning(
            "broker %d was taken for dead (%s) and lives; %d times the evidence is needed from now on",
            broker,
            verdict.evidence.name.lower(),
            self.patience,
        )
        return verdict

    def note_rejection(self, broker: BrokerId, now_ms: float) -> None:
        """Note that a broker answers and rejects this one, by its credentials, certificate or permissions: a process is there.

        Nor is it heard, as `_is_heard` counts: nothing says which registration has answered.
        """
        known = self._neighbours.get(broker)
        if known is not None:
            known.last_sign_ms = now_ms
            known.refusals, known.accused_of = 0, None

    def note_leave(self, broker: BrokerId, broker_epoch: int) -> None:
        """Note that a broker stops and has said so: in this registration it is not accused any more."""
        known = self._neighbours.get(broker)
        if known is not None and known.broker_epoch == broker_epoch:
            known.is_leaving, known.accused_of = True, None

    def note_connection_lost(self, broker: BrokerId) -> None:
        """Note that the connection to a broker broke, on which it had answered or not."""
        known = self._neighbours.get(broker)
        if known is not None:
            known.is_connected, known.refusals = False, 0

    def is_to_be_tried(self, broker: BrokerId, broker_epoch: int) -> bool:
        """True as long as the listeners of a broker whose connection broke are to be tried."""
        known = self._neighbours.get(broker)
        return (
            known is not None
            and known.broker_epoch == broker_epoch
            and known.was_connected
            and not known.is_connected
            and not known.is_leaving
            and known.accused_of is not Evidence.REFUSED
        )

    def note_trial(self, broker: BrokerId, broker_epoch: int, *, refused: bool) -> None:
        """Note whether all listeners of a broker that `is_to_be_tried` have refused connections."""
        if not self.is_to_be_tried(broker, broker_epoch):
            return
        known = self._neighbours[broker]
        known.refusals = known.refusals + 1 if refused else 0
        if known.refusals >= _REFUSALS * self.patience:
            known.accused_of = Evidence.REFUSED
            logger.info("broker %d has closed its connection and refuses others", broker)

    def find_silent(self, now_ms: float) -> list[tuple[BrokerId, int]]:
        """Return the brokers, with their epochs, whose listeners are to be tried now: those that have been silent for half of their limit,
        and not for so long that nothing else counts.
        """
        limit_ms = self._limit_ms
        return [
            (broker, known.broker_epoch)
            for broker, known in self._find_watched()
            if self._may_be_silent(known) and limit_ms / 2 < now_ms - known.last_sign_ms <= limit_ms * _STANDING_STILL
        ]

    def note_accepted(self, broker: BrokerId, broker_epoch: int, now_ms: float) -> None:
        """Note that a listener of a silent broker has accepted a connection: its host lives."""
        known = self._neighbours.get(broker)
        if known is not None and known.broker_epoch == broker_epoch:
            known.accepted_ms = now_ms

    def note_accusations(self, accuser: BrokerId, accusations: Iterable[Accusation], now_ms: float) -> None:
        """Take over of what a broker accuses others now; what it accused them of before does not count any more."""
        if accuser not in self._brokers:
            return
        for known in self._neighbours.values():
            known.reported.pop(accuser, None)
        for each in accusations:
            accused = self._neighbours.get(each.broker_id)
            if accused is not None and accused.broker_epoch == each.broker_epoch and each.broker_id != accuser:
                accused.reported[accuser] = (each.evidence, now_ms)

    def note_sightings(self, witness: BrokerId, sightings: Iterable[Sighting], now_ms: float) -> None:
        """Take over whom a broker watches, and whom of them it hears."""
        if witness in self._brokers:
            self._witnesses[witness] = now_ms, {each.broker_id: each for each in sightings}

    # What follows

    def tick(
        self, now_ms: float, *, has_zookeeper: bool, is_acknowledging: Callable[[BrokerId], bool] = lambda _: False
    ) -> None:
        """Let time pass. To be called every `heartbeat_interval_ms`: what is beyond was a pause of this process, not silence of others.

        `is_acknowledging` tells whether a broker's system acknowledges what was sent to it; it is asked about silent ones only.
        """
        self._has_zookeeper = has_zookeeper
        interval_ms = self._settings.heartbeat_interval_ms
        paused_ms = now_ms - self._ticked_ms - interval_ms
        self._ticked_ms = now_ms
        if paused_ms > 0:
            for known in self._neighbours.values():
                known.last_sign_ms = min(now_ms, known.last_sign_ms + paused_ms)
                known.accepted_ms = min(now_ms, known.accepted_ms + paused_ms)
        for broker, known in self._find_watched():
            self._judge_silence(broker, known, now_ms, is_acknowledging)

    def _judge_silence(
        self, broker: BrokerId, known: _Neighbour, now_ms: float, is_acknowledging: Callable[[BrokerId], bool]
    ) -> None:
        """Accuse a broker that is silent for too long, and no more one whose host turns out to live while that gives it time."""
        silent_ms, limit_ms = now_ms - known.last_sign_ms, self._limit_ms
        if silent_ms <= limit_ms or not self._may_be_silent(known):
            return
        has_accepted = known.accepted_ms >= self._oldest_ms(now_ms)
        is_excused = silent_ms <= limit_ms * _STANDING_STILL and (has_accepted or is_acknowledging(broker))
        if known.accused_of is None and not is_excused:
            known.accused_of = Evidence.SILENT
            logger.info("broker %d has not answered for %.0f ms", broker, silent_ms)
        elif known.accused_of is not None and is_excused:
            known.accused_of = None
            logger.info("broker %d has not answered for %.0f ms, and its host lives", broker, silent_ms)

    @property
    def _limit_ms(self) -> float:
        """Return how long a broker may be silent whose host does not answer either."""
        settings = self._settings
        return self.patience * max(settings.silence_ms, _MIN_HEARTBEATS_MISSED * settings.heartbeat_interval_ms)

    def _may_be_silent(self, known: _Neighbour) -> bool:
        """True if the silence of a neighbour is evidence, and it is not accused of more."""
        is_heeded = self._settings.silence_ms > 0 and known.was_connected and not known.is_leaving
        return is_heeded and known.accused_of is not Evidence.REFUSED

    def _find_watched(self) -> list[tuple[BrokerId, _Neighbour]]:
        return [(each, known) for each in self.neighbours if (known := self._neighbours.get(each)) is not None]

    def _find_accused(self) -> list[tuple[BrokerId, _Neighbour, Evidence]]:
        return [(each, known, known.accused_of) for each, known in self._find_watched() if known.accused_of is not None]

    def sightings(self, now_ms: float) -> tuple[Sighting, ...]:
        """Return which of its neighbours this broker hears, for its heartbeats; of one that never answered it knows nothing."""
        return tuple(
            Sighting(broker, known.broker_epoch, self._is_heard(known, now_ms))
            for broker, known in self._find_watched()
            if known.was_connected
        )

    def _oldest_ms(self, now_ms: float) -> float:
        """Return since when somebody must have been heard, or have said something, for it to be true now."""
        return now_ms - _MIN_HEARTBEATS_MISSED * self._settings.heartbeat_interval_ms

    def _is_heard(self, known: _Neighbour, now_ms: float) -> bool:
        return known.is_connected and known.last_sign_ms >= self._oldest_ms(now_ms)

    def _find_witnesses(self, now_ms: float) -> list[tuple[BrokerId, Mapping[BrokerId, Sighting]]]:
        """Return what others see, of those from whom there is a heartbeat of now: what a dead one saw last is over."""
        oldest_ms = self._oldest_ms(now_ms)
        return [
            (witness, seen)
            for witness, (told_ms, seen) in self._witnesses.items()
            if told_ms >= oldest_ms and not self.is_suspected(witness)
        ]

    def _may_accuse(self, evidence: Evidence, now_ms: float) -> bool:
        """True if this broker hears so many others that those it does not hear are lost, and not itself.

        Counted are its neighbours that have ever answered, and theirs by what they say. Of a cluster that it sees whole it must hear a
        majority, itself among it, and so where some neighbours never answer, as Apache Kafka's; of a larger one, of which it sees a part,
        more than half of that. To accuse of silence it must have lost one alone, or less than half of the others: two halves of a cluster
        that have lost each other are silent to each other, and live.
        """
        watched = self._find_watched()
        heard_by_id = {broker: self._is_heard(known, now_ms) for broker, known in watched if known.was_connected}
        told: dict[BrokerId, bool] = {}
        for witness, seen in self._find_witnesses(now_ms):
            if heard_by_id.get(witness, True):
                for each in seen.values():
                    if each.broker_id != self._broker_id and each.broker_id not in heard_by_id:
                        told[each.broker_id] = told.get(each.broker_id, False) or each.is_heard
        views = heard_by_id | told
        heard = sum(views.values())
        lost = len(views) - heard
        has_strangers = not heard_by_id.keys() >= set(self._ring_neighbours)
        is_whole = has_strangers or len(views) + 1 == len(self._brokers)
        is_majority = heard + is_whole > lost
        is_split = lost > 1 and lost >= heard
        return self._has_zookeeper and heard > 0 and is_majority and not (is_split and evidence is Evidence.SILENT)

    def _find_views(self, broker: BrokerId, broker_epoch: int, now_ms: float) -> dict[BrokerId, bool]:
        """Return which others have just said of a broker, in this registration, that they hear it (True) or do not."""
        return {
            witness: sighting.is_heard
            for witness, seen in self._find_witnesses(now_ms)
            if witness != broker
            and (sighting := seen.get(broker)) is not None
            and sighting.broker_epoch == broker_epoch
        }

    def _is_vouched_for(self, broker: BrokerId, broker_epoch: int, now_ms: float) -> bool:
        """True if a third broker hears this one."""
        return any(self._find_views(broker, broker_epoch, now_ms).values())

    def find_deniers(self, broker: BrokerId, broker_epoch: int, now_ms: float) -> set[BrokerId]:
        """Return the others that have just said that they do not hear a broker."""
        views = self._find_views(broker, broker_epoch, now_ms)
        return {witness for witness, is_heard in views.items() if not is_heard}

    def accusations(self, now_ms: float) -> tuple[Accusation, ...]:
        """Return of what this broker accuses others, for its heartbeats; nobody whom a third one hears."""
        return tuple(
            Accusation(broker, known.broker_epoch, evidence)
            for broker, known, evidence in self._find_accused()
            if self._may_accuse(evidence, now_ms) and not self._is_vouched_for(broker, known.broker_epoch, now_ms)
        )

    def find_watchers(self, broker: BrokerId) -> list[BrokerId]:
        """Return the others that watch a broker."""
        if broker not in self._brokers:
            return []
        return [each for each in find_neighbours(self._brokers, broker) if each != self._broker_id]

    def find_peers(self) -> set[BrokerId]:
        """Return to whom this broker sends heartbeats: its neighbours, and the others that watch those it suspects."""
        suspected = [each for each in self.neighbours if self.is_suspected(each)]
        return {*self.neighbours, *(watcher for each in suspected for watcher in self.find_watchers(each))}

    def find_others(self, broker: BrokerId) -> list[BrokerId]:
        """Return all registered brokers but this one and that one."""
        return [each for each in self._brokers if each not in (self._broker_id, broker)]

    def is_suspected(self, broker: BrokerId) -> bool:
        """True if the connection to a broker has broken and there is no new one, or it is accused."""
        known = self._neighbours.get(broker)
        return known is not None and (known.accused_of is not None or (known.was_connected and not known.is_connected))

    def take_verdict(self, now_ms: float) -> Verdict | None:
        """Return a registration that two brokers accuse and that was not judged before; None without one, or too soon after another."""
        if now_ms - self._last_verdict_ms < MIN_BETWEEN_VERDICTS_MS:
            return None
        # Who was tried last comes last, so that one that others attend to keeps nobody waiting.
        for broker, known, accused_of in sorted(self._find_accused(), key=lambda each: each[1].judged_ms):
            pause_ms = MIN_BETWEEN_VERDICTS_MS * 2 ** min(known.withdrawals, _MAX_DOUBLINGS)
            if known.is_judged or now_ms - known.judged_ms < pause_ms:
                continue
            evidence = self._find_evidence(broker, known, accused_of, now_ms)
            if evidence is None:
                continue
            verdict = Verdict(broker, known.broker_epoch, evidence)
            known.is_judged, known.judged_ms = True, now_ms
            self._judged[broker] = _Judged(verdict, known.incarnation, now_ms)
            self._last_verdict_ms = now_ms
            return verdict
        return None

    def still_holds(self, verdict: Verdict, now_ms: float) -> bool:
        """True if a verdict would be given now, too: while it was looked at, the evidence may have gone."""
        known = self._neighbours.get(verdict.broker_id)
        return (
            known is not None
            and known.broker_epoch == verdict.broker_epoch
            and known.accused_of is not None
            and self._find_evidence(verdict.broker_id, known, known.accused_of, now_ms) is not None
        )

    def _find_evidence(
        self, broker: BrokerId, known: _Neighbour, accused_of: Evidence, now_ms: float
    ) -> Evidence | None:
        """Return the evidence on which a broker can be taken for dead now, None if there is not enough."""
        oldest_ms = self._oldest_ms(now_ms)
        others = [evidence for evidence, told_ms in known.reported.values() if told_ms >= oldest_ms]
        if len(others) + 1 < _ACCUSERS:
            return None
        if not self._may_accuse(accused_of, now_ms) or self._is_vouched_for(broker, known.broker_epoch, now_ms):
            return None
        refused = accused_of is Evidence.REFUSED and Evidence.REFUSED in others
        return Evidence.REFUSED if refused else Evidence.SILENT

    def defer(self, verdict: Verdict) -> None:
        """Note that a verdict was not carried out because others are at work; it can be given again while the evidence lasts."""
        judged, known = self._judged.get(verdict.broker_id), self._neighbours.get(verdict.broker_id)
        if judged is not None and judged.verdict == verdict:
            self._judged[verdict.broker_id] = judged._replace(is_deferred=True)
            if known is not None and known.broker_epoch == verdict.broker_epoch:
                known.is_judged = False

    def withdraw(self, verdict: Verdict, *, for_good: bool) -> None:
        """Take back a verdict that was not carried out; it can be given again while the evidence lasts, unless that is `for_good`."""
        judged = self._judged.get(verdict.broker_id)
        if judged is None or judged.verdict != verdict:
            return
        del self._judged[verdict.broker_id]
        known = self._neighbours.get(verdict.broker_id)
        if known is not None and known.broker_epoch == verdict.broker_epoch:
            known.is_judged = for_good
            known.withdrawals += 1


def _arrange_ring(brokers: Iterable[BrokerId], racks: Mapping[BrokerId, str]) -> tuple[BrokerId, ...]:
    """Return brokers in the order of their ids, one of each rack in turn: whoever dies with its rack has witnesses in others."""
    ordered = sorted(brokers)
    if not racks:
        return tuple(ordered)
    counts: Counter[str] = Counter()
    places: dict[BrokerId, tuple[int, str]] = {}
    for broker in ordered:
        rack = racks.get(broker, "")
        places[broker] = counts[rack], rack
        counts[rack] += 1
    return tuple(sorted(ordered, key=places.__getitem__))


def find_neighbours(brokers: Sequence[BrokerId], broker_id: BrokerId) -> Sequence[BrokerId]:
    """Return the nearest of the other brokers in the ring, `NEIGHBOURS_ON_EACH_SIDE` on each side."""
    place = brokers.index(broker_id)
    distances = [*range(1, NEIGHBOURS_ON_EACH_SIDE + 1), *range(-NEIGHBOURS_ON_EACH_SIDE, 0)]
    near = {brokers[(place + distance) % len(brokers)] for distance in distances}
    return sorted(near - {broker_id})
