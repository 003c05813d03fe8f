"""Who may do what in the console: a table of its screens and one of its actions, by role. `test_console_roles` holds the page to both.

In places `{of}` is what a screen is about. In texts and fields `{role}` is the name of the role, whose topics, groups and users have it in
theirs; `{leader}` and `{follower}` are the brokers of the topic `orders`.

What a role may do follows from `May`: who may change does every action, who may read is shown no form, and who may ask is refused by the
brokers with the reason that the action's row has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from tests.system import console_world as facts
from tests.system.console_world import ADMIN, LOOKER, UNAUTHORIZED, World


class May(Enum):
    """What a role may do in the console."""

    CHANGE = "change"
    READ = "read"
    """The console refuses changes, so no form is shown."""
    ASK = "ask"
    """The brokers refuse changes, so forms are shown and say why."""


@dataclass(frozen=True)
class Role:
    """A kind of person at the console. `user` is whom the brokers see; with `has_login` the console wants a name and a password."""

    name: str
    what: str
    user: str
    may: May
    has_login: bool = False


ROLES: Final = (
    Role("here", "a console on this machine", ADMIN, May.CHANGE),
    Role("ann", "a console with a login", ADMIN, May.CHANGE, has_login=True),
    Role("reads", "a console with --read-only", ADMIN, May.READ),
    Role("bob", "a console with a login and --read-only", ADMIN, May.READ, has_login=True),
    Role("looks", "a user who may look at the cluster and change nothing", LOOKER, May.ASK),
    Role("nobody", "a user without any right", UNAUTHORIZED, May.ASK),
)


@dataclass(frozen=True)
class Screen:
    """A screen by the title that the page gives its route. `shows` are texts for those who may look at the cluster.

    `to_looker` are other texts for a user who may only look; `to_unauthorized` are those for one who may not, and `hides` what this one
    must not see. `for_changes` is true of a screen that has no other purpose.
    """

    title: str
    route: str
    place: str
    heading: str
    shows: tuple[str, ...]
    to_unauthorized: tuple[str, ...]
    to_looker: tuple[str, ...] | None = None
    hides: tuple[str, ...] = ("orders",)
    of: str = "orders"
    for_changes: bool = False
    prepare: Callable[[World, Mapping[str, str]], None] = facts.leave_as_it_is

    def texts(self, role: Role) -> tuple[str, ...]:
        """Return what a role is to see."""
        if self.for_changes and role.may is May.READ:
            return (ONLY_READS,)
        if role.user == UNAUTHORIZED:
            return self.to_unauthorized
        shown = self.shows if role.user == ADMIN or self.to_looker is None else self.to_looker
        return tuple(each.format(role=role.name) for each in shown)


ONLY_READS: Final = "This console only reads (--read-only); nothing can be changed here."
NO_ZOOKEEPER: Final = ("Nobody said where ZooKeeper is",)
_NO_TOPIC: Final = "topic orders: not authorized for the topic"
_NO_GROUP: Final = "finding the coordinator of group readers: not authorized for the group"
_NO_CLUSTER: Final = "not authorized for the cluster"

SCREENS: Final = (
    Screen(
        "Overview",
        route=r"^\/$",
        place="#/",
        heading="Overview",
        shows=("2 of 2", "✓ brokers answer"),
        to_unauthorized=("2 of 2", "Not all of the cluster could be looked at", _NO_CLUSTER),
    ),
    Screen(
        "Topics",
        route=r"^\/topics$",
        place="#/topics",
        heading="Topics",
        shows=("orders", "ok"),
        to_unauthorized=("no topics",),
    ),
    Screen(
        "Topic",
        route=r"^\/topics\/([^/]+)$",
        place="#/topics/{of}",
        heading="orders",
        shows=("Under-replicated", "retention.ms"),
        to_unauthorized=(_NO_TOPIC,),
        hides=("Under-replicated", "retention.ms"),
    ),
    Screen(
        "Records",
        route=r"^\/topics\/([^/]+)\/records$",
        place="#/topics/{of}/records",
        heading="orders",
        shows=("an order",),
        to_unauthorized=(_NO_TOPIC,),
        hides=("an order",),
    ),
    Screen(
        "Produce",
        route=r"^\/topics\/([^/]+)\/produce$",
        place="#/topics/{of}/produce",
        heading="orders",
        shows=("1 partition with 2 replicas each", "Write the record"),
        to_unauthorized=("There is no such topic that this console may describe.", "Write the record"),
        hides=("1 partition",),
        for_changes=True,
    ),
    Screen(
        "Groups of a topic",
        route=r"^\/topics\/([^/]+)\/groups$",
        place="#/topics/{of}/groups",
        heading="orders",
        shows=("readers", "Lag in this topic"),
        to_unauthorized=("No group has committed for it.",),
        hides=("readers",),
    ),
    Screen(
        "Change",
        route=r"^\/topics\/([^/]+)\/change$",
        place="#/topics/{of}/change",
        heading="orders",
        shows=("1 partition with 2 replicas each", "Delete the topic"),
        to_unauthorized=("There is no such topic that this console may describe.", "Delete the topic"),
        hides=("1 partition",),
        for_changes=True,
    ),
    Screen(
        "Groups",
        route=r"^\/groups$",
        place="#/groups",
        heading="Groups",
        shows=("readers", "Empty"),
        to_unauthorized=("no groups",),
        hides=("readers",),
    ),
    Screen(
        "Group",
        route=r"^\/groups\/([^/]+)$",
        place="#/groups/{of}",
        heading="readers",
        shows=("Nobody is in it.", "orders 0"),
        to_unauthorized=(_NO_GROUP,),
        hides=("Nobody is in it.", "orders"),
        of="readers",
    ),
    Screen(
        "Brokers",
        route=r"^\/brokers$",
        place="#/brokers",
        heading="Brokers",
        shows=("up controller", "None."),
        to_unauthorized=("up controller",),
    ),
    Screen(
        "Broker",
        route=r"^\/brokers\/(\d+)$",
        place="#/brokers/{of}",
        heading="Broker 1",
        shows=("orders 0", "the broker's file"),
        to_unauthorized=("no partitions", _NO_CLUSTER),
        hides=("orders", "the broker's file"),
        of="1",
    ),
    Screen(
        "Timeline",
        route=r"^\/timeline$",
        place="#/timeline",
        heading="Timeline",
        shows=("new partition late-{role}-0",),
        to_unauthorized=("Nothing so far.",),
        hides=("late-",),
        prepare=facts.create_topic,
    ),
    Screen(
        "ZooKeeper",
        route=r"^\/zookeeper(\/.*)?$",
        place="#/zookeeper/brokers/{of}",
        heading="ZooKeeper",
        shows=("The topics.", "orders"),
        to_unauthorized=NO_ZOOKEEPER,
        to_looker=NO_ZOOKEEPER,
        of="topics",
    ),
    Screen(
        "Transactions",
        route=r"^\/transactions$",
        place="#/transactions",
        heading="Transactions",
        shows=("paid", "CompleteCommit", "Find hanging transactions"),
        to_unauthorized=("no transactions",),
        hides=("paid",),
    ),
    Screen(
        "Access",
        route=r"^\/access$",
        place="#/access",
        heading="Access",
        shows=("User:looker", "SCRAM-SHA-512, 4096 iterations"),
        to_unauthorized=(_NO_CLUSTER,),
        hides=("User:looker", "4096 iterations"),
    ),
    Screen(
        "Spark jobs",
        route=r"^\/nights$",
        place="#/nights",
        heading="Spark jobs",
        shows=("--nights",),
        to_unauthorized=("--nights",),
    ),
)


class Refused(NamedTuple):
    """When and why an action is refused by the brokers."""

    at: str
    why: str


PREVIEW, DO = "the preview", "Do it"
ABSENT: Final = None
"""The action is not on the screen, because what it is about is not shown."""


@dataclass(frozen=True)
class Action:
    """An action by the name of its form, on one screen, which is about `of`. `plan` is in the preview of those who may do it.

    `changes` reads what it is to change, and `prepare` sees that there is something to do. `row` is a part of the table row whose button
    shows the form, `confirm` the word that is to be typed. Afterwards the page says `told`, or another screen is shown, with the heading
    `leads_to`.
    """

    name: str
    screen: str
    plan: str
    changes: Callable[[World, Mapping[str, str]], object]
    looker: Refused
    unauthorized: Refused | None
    fields: Mapping[str, str] = field(default_factory=dict)
    of: str = "orders"
    prepare: Callable[[World, Mapping[str, str]], None] = facts.leave_as_it_is
    row: str = ""
    confirm: str = ""
    told: str = "Done."
    leads_to: str = ""


_NOTHING: Final = "there is nothing to do"

ACTIONS: Final = (
    Action(
        "create-topic",
        screen="Topics",
        plan="kafkalite topic create new-{role} --partitions 1",
        changes=facts.topic_names,
        looker=Refused(PREVIEW, "creating topic new-looks: Authorization failed."),
        unauthorized=Refused(PREVIEW, "creating topic new-nobody: Authorization failed."),
        fields={"topic": "new-{role}", "partitions": "1"},
        leads_to="new-{role}",
    ),
    Action(
        "change-settings",
        screen="Change",
        plan="kafkalite config alter --topic own-{role} --set retention.ms=86400000",
        changes=facts.topic_settings,
        looker=Refused(PREVIEW, "settings of topic own-looks: not authorized for the topic"),
        unauthorized=Refused(PREVIEW, "settings of topic own-nobody: Topic authorization failed."),
        fields={"set": "retention.ms=86400000"},
        of="own-{role}",
    ),
    Action(
        "add-partitions",
        screen="Change",
        plan="kafkalite partition add own-{role} 2",
        changes=facts.partition_count,
        looker=Refused(PREVIEW, "adding partitions to own-looks: The topic authorization is failed."),
        unauthorized=Refused(PREVIEW, "topic own-nobody: not authorized for the topic"),
        fields={"total": "2"},
        of="own-{role}",
    ),
    Action(
        "elect-leaders",
        screen="Change",
        plan="kafkalite leader elect orders-0",
        changes=facts.leaders,
        looker=Refused(DO, "electing leaders: not authorized for the cluster"),
        unauthorized=Refused(PREVIEW, "there is no topic orders that this console may describe"),
        prepare=facts.prefer_follower,
    ),
    Action(
        "move-leaders",
        screen="Change",
        plan="kafkalite partition reassign execute orders-0={follower},{leader}",
        changes=facts.leaders,
        looker=Refused(DO, "reassigning partitions: not authorized for the cluster"),
        unauthorized=Refused(PREVIEW, "there is no partition orders-0 that this console may describe"),
        fields={"partitions": "orders-0", "to": "{follower}"},
        prepare=facts.prefer_leader,
    ),
    Action(
        "produce",
        screen="Produce",
        plan="",
        changes=facts.end_offsets,
        looker=Refused(DO, "not authorized for the cluster"),
        unauthorized=Refused(DO, "topic own-nobody: not authorized for the topic"),
        fields={"value": "written by {role}"},
        of="own-{role}",
        told="Written: partition",
    ),
    Action(
        "purge-topic",
        screen="Change",
        plan="kafkalite record delete own-{role}-0=",
        changes=facts.first_offset,
        looker=Refused(DO, "deleting records of own-looks-0: not authorized for the topic"),
        unauthorized=Refused(PREVIEW, "topic own-nobody: not authorized for the topic"),
        of="own-{role}",
        confirm="own-{role}",
    ),
    Action(
        "delete-topic",
        screen="Change",
        plan="kafkalite topic delete own-{role} --yes",
        changes=facts.topic_names,
        looker=Refused(DO, "deleting topic own-looks: not authorized for the topic"),
        unauthorized=Refused(PREVIEW, "topic own-nobody: not authorized for the topic"),
        of="own-{role}",
        confirm="own-{role}",
        leads_to="Topics",
    ),
    Action(
        "reset-offsets",
        screen="Group",
        plan="kafkalite group reset-offsets readers-{role} --all-topics --to-earliest --execute",
        changes=facts.committed_offset,
        looker=Refused(DO, "committing offsets of group readers-looks for orders-0: not authorized for the group"),
        unauthorized=Refused(PREVIEW, "finding the coordinator of group readers-nobody: not authorized for the group"),
        of="readers-{role}",
    ),
    Action(
        "delete-group",
        screen="Group",
        plan="kafkalite group delete readers-{role} --yes",
        changes=facts.group_names,
        looker=Refused(DO, "deleting group readers-looks: not authorized for the group"),
        unauthorized=Refused(PREVIEW, "finding the coordinator of group readers-nobody: not authorized for the group"),
        of="readers-{role}",
        confirm="readers-{role}",
        leads_to="Groups",
    ),
    Action(
        "elect-leaders",
        screen="Brokers",
        plan="kafkalite leader elect orders-0",
        changes=facts.leaders,
        looker=Refused(DO, "electing leaders: not authorized for the cluster"),
        unauthorized=Refused(PREVIEW, _NOTHING),
        prepare=facts.prefer_follower,
    ),
    Action(
        "change-settings",
        screen="Brokers",
        plan="kafkalite config alter --broker-defaults --set log.cleaner.threads=2",
        changes=facts.broker_settings,
        looker=Refused(PREVIEW, "settings of all brokers: not authorized for the cluster"),
        unauthorized=Refused(PREVIEW, "settings of all brokers: Cluster authorization failed."),
        fields={"set": "log.cleaner.threads=2"},
        prepare=facts.forget_broker_settings,
    ),
    Action(
        "change-settings",
        screen="Broker",
        plan="kafkalite config alter --broker {leader} --set log.cleaner.threads=2",
        changes=facts.broker_settings,
        looker=Refused(PREVIEW, "settings of broker {leader}: not authorized for the cluster"),
        unauthorized=Refused(PREVIEW, "settings of broker {leader}: Cluster authorization failed."),
        fields={"set": "log.cleaner.threads=2"},
        of="{leader}",
        prepare=facts.forget_broker_settings,
    ),
    Action(
        "move-leaders",
        screen="Broker",
        plan="orders-0={follower},{leader}",
        changes=facts.leaders,
        looker=Refused(DO, "reassigning partitions: not authorized for the cluster"),
        unauthorized=Refused(PREVIEW, _NOTHING),
        of="{leader}",
        prepare=facts.prefer_leader,
    ),
    Action(
        "elect-leaders",
        screen="Broker",
        plan="kafkalite leader elect orders-0",
        changes=facts.leaders,
        looker=Refused(DO, "electing leaders: not authorized for the cluster"),
        unauthorized=Refused(PREVIEW, _NOTHING),
        of="{follower}",
        prepare=facts.prefer_follower,
    ),
    Action(
        "add-acl",
        screen="Access",
        plan="kafkalite acl add User:friend-{role} Read --topic orders",
        changes=facts.rules,
        looker=Refused(DO, "creating User:friend-looks may Read Topic orders: not authorized for the cluster"),
        unauthorized=ABSENT,
        fields={"principal": "friend-{role}", "name": "orders"},
    ),
    Action(
        "remove-acl",
        screen="Access",
        plan="kafkalite acl remove --topic orders --principal User:foe-{role} --operation Read --yes",
        changes=facts.rules,
        looker=Refused(
            DO,
            "name orders, pattern Literal: not authorized for the cluster",
        ),
        unauthorized=ABSENT,
        row="User:foe-{role}",
    ),
    Action(
        "set-password",
        screen="Access",
        plan="kafka-configs",
        changes=facts.credentials,
        looker=Refused(DO, "not authorized for the cluster"),
        unauthorized=Refused(PREVIEW, "describing credentials: not authorized for the cluster"),
        fields={"user": "new-{role}", "password": "correct horse"},
    ),
    Action(
        "delete-user",
        screen="Access",
        plan="kafka-configs",
        changes=facts.credentials,
        looker=Refused(DO, "not authorized for the cluster"),
        unauthorized=Refused(PREVIEW, "describing credentials: not authorized for the cluster"),
        fields={"user": "user-{role}"},
        confirm="user-{role}",
    ),
    Action(
        "abort-transaction",
        screen="Transactions",
        plan="kafkalite transaction abort hangs-{role}-0",
        changes=facts.open_transactions,
        looker=Refused(DO, "in hangs-looks-0: not authorized for the cluster"),
        unauthorized=ABSENT,
        row="hangs-{role}-0",
        confirm="hangs-{role}-0",
    ),
)
