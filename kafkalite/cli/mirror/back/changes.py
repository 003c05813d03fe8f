"""What administrators have changed in the target since the switch, and what of it is to be done in the source. Pure.

An item is a topic, its number of partitions, one of its settings, an ACL, or one quota of an entity. It is brought back if the target has
another value than at the switch and the source differs; the source gets the target's value, whatever it has itself. Items that the target
has as at the switch stay in the source as they are there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kafkalite.cli.mirror.administered.state import Administered, AtSwitch, TopicState
from kafkalite.cli.mirror.back.verdicts import judge_topic
from kafkalite.cli.mirror.plan import KnownTopic, is_left_out
from kafkalite.types import INTERNAL_TOPICS

if TYPE_CHECKING:
    from kafkalite.client import QuotaEntity
    from kafkalite.security.acl import AclBinding

NO_SNAPSHOT = (
    "the directory does not tell what the target had at the switch: what administrators changed there since then is not brought back, but"
    " for added partitions"
)


class Kind(StrEnum):
    """Kinds of changes."""

    TOPIC = "topic"
    PARTITIONS = "partitions"
    SETTING = "setting"
    ACL = "acl"
    QUOTA = "quota"
    RECORDS = "records"


@dataclass(frozen=True, slots=True)
class Change:
    """One change in the source: `before` is what it has, `after` what it gets; None stands for nothing."""

    kind: Kind
    name: str
    """Of the topic, the entity of a quota, or the text of an ACL."""
    key: str
    """Of the setting or quota, the number of a partition that loses records, empty for others."""
    before: str | None
    after: str | None

    @property
    def identity(self) -> str:
        """Return what the change is about, whatever the values."""
        return identify(self.kind, self.name, self.key)

    @property
    def row(self) -> dict[str, Any]:
        """Return the change as people see it."""
        return {
            "kind": str(self.kind),
            "name": self.name,
            "key": self.key,
            "in_source": self.before,
            "becomes": self.after,
        }

    def __str__(self) -> str:
        what = f"{self.kind} {self.name}{f' {self.key}' if self.key else ''}"
        return f"{what}: {self.before or 'nothing'} becomes {self.after or 'nothing'}"


def identify(kind: Kind, name: str, key: str = "") -> str:
    """Return the identity of the changes of one item."""
    return f"{kind} {name} {key}".rstrip()


@dataclass(frozen=True, slots=True)
class WantedBack:
    """What the operator wants: topics made in the target that are `left` there, and how many replicas others get in the source."""

    left: Collection[str] = ()
    replication_factor: int | None = None
    deletes: Collection[str] = ()
    """Topics that are deleted in the source if they were in the target."""


@dataclass(frozen=True, slots=True)
class Source:
    """What the source can have."""

    brokers: int
    topic_settings: Collection[str]
    quotas: Collection[str]
    """Settings of topics, and quotas, that its brokers know."""


@dataclass(slots=True)
class ChangePlan:
    """What to do in the source. `problems` and `uncopied` keep clients from returning, `left_out` does not."""

    deletions: list[str] = field(default_factory=list)
    creations: dict[str, TopicState] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    settings: dict[str, dict[str, str | None]] = field(default_factory=dict)
    new_acls: list[AclBinding] = field(default_factory=list)
    old_acls: list[AclBinding] = field(default_factory=list)
    quotas: dict[QuotaEntity, dict[str, float | None]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    """All of it, in the order in which it is done."""
    left_out: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    uncopied: list[str] = field(default_factory=list)
    """Why topics are not copied. A copy finds the same; a plan that is only shown has no copy."""


def find_leavable(at_switch: AtSwitch, target: Administered, known: Collection[str]) -> list[str]:
    """Return the topics that can be left in the target: those that were made there since the switch, also if they are `known` because they
    were begun in the source.
    """
    then = at_switch.target.topics
    made = {name for name, each in target.topics.items() if name not in then or then[name].topic_id != each.topic_id}
    return sorted(made | (set(known) - then.keys()))


def is_left(name: str, known: Mapping[str, KnownTopic], then: Administered, wanted: WantedBack) -> bool:
    """True for a topic that is left in the target though it was begun in the source. A mirrored topic of which the target has another one
    now is not left: `--leave` means the other one.
    """
    mirrored = then.topics.get(name)
    return name in wanted.left and (mirrored is None or mirrored.topic_id != known[name].target_id)


def plan_changes(
    at_switch: AtSwitch | None,
    source: Administered,
    target: Administered,
    known: Mapping[str, KnownTopic],
    can_have: Source,
    wanted: WantedBack,
) -> ChangePlan:
    """Return what is to be done. `known` are the topics that are copied back: the mirrored ones, and those that were begun since."""
    planner = _Planner(at_switch or AtSwitch(target), source, target, known, can_have, wanted)
    if at_switch is None:
        planner.plan.left_out.append(NO_SNAPSHOT)
    planner.plan_topics()
    planner.plan_acls()
    planner.plan_quotas()
    return planner.plan


class _Planner:
    """Fills one plan."""

    def __init__(
        self,
        at_switch: AtSwitch,
        source: Administered,
        target: Administered,
        known: Mapping[str, KnownTopic],
        can_have: Source,
        wanted: WantedBack,
    ) -> None:
        self._then, self._brought_back = at_switch.target, at_switch.brought_back
        self._source, self._target, self._known = source, target, known
        self._can_have, self._wanted = can_have, wanted
        self.plan = ChangePlan()

    def plan_topics(self) -> None:
        """Plan topics that were made, deleted, or changed."""
        for name in sorted(self._known.keys() & self._source.topics.keys() & set(self._wanted.deletes)):
            self._plan_deletion(name)
        for name, theirs in sorted(self._target.topics.items()):
            begun, ours = self._known.get(name), self._source.topics.get(name)
            if name in self._wanted.left and self._is_made(name, theirs):
                self._leave_topic(name, theirs, begun, ours)
            elif begun is None or begun.target_id != theirs.topic_id:
                self._plan_new(name, theirs, ours)
            elif begun.is_unconfirmed:
                self._plan_begun(name, theirs, ours)
            elif ours is not None and begun.source_id == ours.topic_id:
                self._plan_partitions(name, theirs, ours)
                self._plan_settings(name, theirs, ours)
        self.plan.uncopied = [each for name in sorted(self._known) if (each := self._find_uncopied(name))]

    def _find_uncopied(self, name: str) -> str:
        """Return why the records of a topic are not copied once the plan is carried out, empty if they are."""
        if (
            name in INTERNAL_TOPICS
            or name in self.plan.deletions
            or is_left(name, self._known, self._then, self._wanted)
        ):
            return ""
        for side in (self._target, self._source):
            if name in side.unknown_topics:
                return f"topic {name} {side.unknown_topics[name]}"
        return judge_topic(name, self._known[name], self._source.topics.get(name), self._target.topics.get(name))

    def _is_made(self, name: str, theirs: TopicState) -> bool:
        """True for a topic that was made in the target since the switch."""
        then = self._then.topics.get(name)
        return then is None or then.topic_id != theirs.topic_id

    def _leave_topic(self, name: str, theirs: TopicState, begun: KnownTopic | None, ours: TopicState | None) -> None:
        text = f"topic {name} was made in the target, and is left there (--leave)"
        is_begun = begun is not None and begun.target_id == theirs.topic_id and not begun.is_unconfirmed
        if is_begun and ours is not None and begun is not None and begun.source_id == ours.topic_id:
            text += "; the source has what was copied of it before: delete it there if nobody wants it"
        self.plan.left_out.append(text)

    def _plan_begun(self, name: str, theirs: TopicState, ours: TopicState | None) -> None:
        """Plan a topic that was to be made, by a call that did not learn whether it was: whose a topic of that name is, is not known."""
        if ours is None:
            self._plan_creation(name, theirs)
            return
        why = "the source has one of that name, which somebody else may have made (no answer said that it is the mirror's own)"
        remedy = f"nothing was copied into it: delete it in the source, or --leave {name}"
        self.plan.problems.append(f"topic {name} was made in the target, and {why}. {remedy}")

    def _plan_deletion(self, name: str) -> None:
        begun, theirs = self._known[name], self._target.topics.get(name)
        if name in self._target.unknown_topics or begun.is_unconfirmed:
            return
        is_gone = theirs is None or theirs.topic_id != begun.target_id
        if (
            is_gone
            and theirs is not None
            and name not in self._wanted.left
            and self._find_replicas(name, theirs) is None
        ):
            return  # it was made again there, and could not be made here
        if is_gone and begun.source_id == self._source.topics[name].topic_id:
            self.plan.deletions.append(name)
            self._add(Kind.TOPIC, name, "", _describe(self._source.topics[name]), None)
            if theirs is not None and name not in self._wanted.left:
                why = "once the old one is deleted in the source"
                self.plan.left_out.append(f"topic {name} was made again in the target, and is made again {why}")

    def _plan_new(self, name: str, theirs: TopicState, ours: TopicState | None) -> None:
        if not self._is_made(name, theirs):
            self.plan.left_out.append(f"topic {name} was in the target before the switch, and is not copied")
        elif ours is None:
            self._plan_creation(name, theirs)
        elif name not in self._known:
            why = f"topic {name} was made in the target, and the source has another one of that name"
            self.plan.problems.append(f"{why}: delete one of them, or --leave {name}")

    def _find_replicas(self, name: str, theirs: TopicState) -> int | None:
        """Return how many replicas a topic is to have in the source; None, with a problem, if that has too few brokers."""
        replicas = self._wanted.replication_factor or theirs.replicas
        if replicas <= self._can_have.brokers:
            return replicas
        there = f"the source has {self._can_have.brokers} brokers"
        why = f"topic {name} is to have {replicas} replicas, and {there}; --replication-factor gives it fewer"
        if why not in self.plan.problems:
            self.plan.problems.append(why)
        return None

    def _plan_creation(self, name: str, theirs: TopicState) -> None:
        replicas = self._find_replicas(name, theirs)
        if replicas is None:
            return
        kept = dict(self._select_known(name, theirs.settings))
        self.plan.creations[name] = TopicState(theirs.topic_id, theirs.partitions, replicas, kept)
        self._add(Kind.TOPIC, name, "", None, _describe(self.plan.creations[name]))
        for key, value in sorted(kept.items()):
            self._add(Kind.SETTING, name, key, None, value)

    def _select_known(self, name: str, settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        for key, value in sorted(settings.items()):
            if key in self._can_have.topic_settings and not is_left_out(key):
                yield key, value
            elif not is_left_out(key):
                self._leave_setting_out(name, key, value)

    def _leave_setting_out(self, name: str, key: str, value: str | None) -> None:
        what = f"topic {name}: {key}={value}" if value is not None else f"topic {name}: {key}"
        self.plan.left_out.append(f"{what} is not brought back: the source's brokers do not know it")

    def _plan_partitions(self, name: str, theirs: TopicState, ours: TopicState) -> None:
        if theirs.partitions > ours.partitions:
            self.plan.partitions[name] = theirs.partitions
            self._add(Kind.PARTITIONS, name, "", str(ours.partitions), str(theirs.partitions))

    def _plan_settings(self, name: str, theirs: TopicState, ours: TopicState) -> None:
        then = self._then.topics.get(name)
        before = then.settings if then is not None and then.topic_id == theirs.topic_id else {}
        for key in sorted({*before, *theirs.settings, *ours.settings}):
            value, has = theirs.settings.get(key), ours.settings.get(key)
            if (
                is_left_out(key)
                or not self._is_changed(Kind.SETTING, name, key, before.get(key), value)
                or value == has
            ):
                continue
            if key not in self._can_have.topic_settings:
                self._leave_setting_out(name, key, value)
                continue
            self.plan.settings.setdefault(name, {})[key] = value
            self._add(Kind.SETTING, name, key, has, value)

    def plan_acls(self) -> None:
        """Plan ACLs that were added or removed."""
        self.plan.left_out += [
            f"ACL {each} is not brought back: the source's brokers do not know it"
            for each in self._target.unknown_acls
            if each not in self._then.unknown_acls
        ]
        theirs, ours, then = self._target.acls, self._source.acls or frozenset(), self._then.acls or frozenset()
        if theirs is None:
            if then:
                self.plan.left_out.append("the target has no authorizer any more: the source's ACLs stay as they are")
            return
        added = [each for each in sorted(theirs - ours) if self._is_changed_acl(each, each in then, True)]
        removed = [each for each in sorted(ours - theirs) if self._is_changed_acl(each, each in then, False)]
        if added and self._source.acls is None:
            why = "the source has no authorizer, and everybody may do everything there"
            self.plan.problems.append(f"{len(added)} ACLs that were added in the target are not brought back: {why}")
            return
        for each in added:
            self.plan.new_acls.append(each)
            self._add(Kind.ACL, str(each), "", None, "added")
        for each in removed:
            self.plan.old_acls.append(each)
            self._add(Kind.ACL, str(each), "", "there", None)

    def _is_changed_acl(self, each: AclBinding, before: bool, now: bool) -> bool:
        return before != now or identify(Kind.ACL, str(each)) in self._brought_back

    def plan_quotas(self) -> None:
        """Plan quotas that were set or removed."""
        entities = {*self._target.quotas, *self._source.quotas}
        for entity in sorted(entities, key=str):
            before = self._then.quotas.get(entity, {})
            theirs, ours = self._target.quotas.get(entity, {}), self._source.quotas.get(entity, {})
            for key in sorted({*theirs, *ours}):
                value, has = theirs.get(key), ours.get(key)
                if value == has or not self._is_changed(Kind.QUOTA, str(entity), key, before.get(key), value):
                    continue
                if key not in self._can_have.quotas:
                    why = "the source's brokers do not know it"
                    self.plan.left_out.append(f"quota {key}={value} of {entity} is not brought back: {why}")
                    continue
                self.plan.quotas.setdefault(entity, {})[key] = value
                self._add(Kind.QUOTA, str(entity), key, _number(has), _number(value))

    def _is_changed(self, kind: Kind, name: str, key: str, before: object, now: object) -> bool:
        return before != now or identify(kind, name, key) in self._brought_back

    def _add(self, kind: Kind, name: str, key: str, before: str | None, after: str | None) -> None:
        self.plan.changes.append(Change(kind, name, key, before, after))


def _describe(topic: TopicState) -> str:
    partitions = "1 partition" if topic.partitions == 1 else f"{topic.partitions} partitions"
    return f"{partitions}, {topic.replicas} replica{'' if topic.replicas == 1 else 's'}"


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.15g}"
