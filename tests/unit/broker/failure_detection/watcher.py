"""A failure detector with the time that passes, for tests of its rules."""

from __future__ import annotations

from kafkalite.broker.failure_detection.detection_settings import DetectionMode, DetectionSettings
from kafkalite.broker.failure_detection.detector import FailureDetector, Verdict
from kafkalite.broker.failure_detection.evidence import Accusation, Evidence

ME, OTHER, VICTIM = 1, 2, 3
EPOCH, LIFE = 70, bytes(15) + b"\7"
SETTINGS = DetectionSettings(DetectionMode.EVIDENCE, 200, 1200, frozenset())


class Watcher:
    """A detector with the time that passes, among brokers that all answer until they are told not to."""

    def __init__(self, *brokers: int, settings: DetectionSettings = SETTINGS) -> None:
        self.now_ms = 0.0
        self.detector = FailureDetector(ME, settings, self.now_ms)
        self.detector.set_brokers(brokers or (ME, OTHER, VICTIM))
        self.answering = list(self.detector.neighbours)
        self.has_zookeeper = True
        self.acknowledging: set[int] = set()
        self.accusers: dict[int, tuple[Accusation, ...]] = {}
        self.answer()

    def answer(self, *brokers: int, epoch: int = EPOCH, life: bytes = LIFE) -> list[Verdict]:
        wrong = []
        for broker in brokers or self.answering:
            found = self.detector.note_sign_of_life(broker, epoch, life, self.now_ms, answered=True)
            wrong += [found] if found is not None else []
        return wrong

    def pass_time(self, ms: float) -> list[Verdict]:
        """Let heartbeats go on, with ticks between them, and return the verdicts."""
        verdicts = []
        for _ in range(round(ms / SETTINGS.heartbeat_interval_ms)):
            self.now_ms += SETTINGS.heartbeat_interval_ms
            verdicts += self.turn()
        return verdicts

    def turn(self) -> list[Verdict]:
        self.detector.tick(
            self.now_ms, has_zookeeper=self.has_zookeeper, is_acknowledging=self.acknowledging.__contains__
        )
        for broker in self.answering:
            self.answer(broker)
        for accuser, accusations in self.accusers.items():
            self.detector.note_accusations(accuser, accusations, self.now_ms)
        verdict = self.detector.take_verdict(self.now_ms)
        return [] if verdict is None else [verdict]

    def lose(self, broker: int, epoch: int = EPOCH, *, refusals: int = 2) -> None:
        """Break the connection to a broker, whose listeners then refuse."""
        self.answering = [each for each in self.answering if each != broker]
        self.detector.note_connection_lost(broker)
        for _ in range(refusals):
            self.detector.note_trial(broker, epoch, refused=True)

    def be_told(self, evidence: Evidence, *, by: int = OTHER, epoch: int = EPOCH, of: int = VICTIM) -> None:
        self.accusers[by] = (Accusation(of, epoch, evidence),)
        self.detector.note_accusations(by, self.accusers[by], self.now_ms)

    def accused(self) -> dict[int, Evidence]:
        return {each.broker_id: each.evidence for each in self.detector.accusations(self.now_ms)}

    def verdict(self) -> Verdict | None:
        return self.detector.take_verdict(self.now_ms)
