"""The actions by name."""

from __future__ import annotations

from typing import Final

from kafkalite.console.actions import groups, leaders, permissions, settings, topics, transactions
from kafkalite.console.actions.plan import Planner

ACTIONS: Final[dict[str, Planner]] = {
    "create-topic": topics.plan_creation,
    "delete-topic": topics.plan_deletion,
    "purge-topic": topics.plan_purge,
    "add-partitions": topics.plan_more_partitions,
    "change-settings": settings.plan_settings,
    "delete-group": groups.plan_deletion,
    "elect-leaders": leaders.plan_election,
    "move-leaders": leaders.plan_move,
    "add-acl": permissions.plan_new_rule,
    "remove-acl": permissions.plan_removal,
    "set-password": permissions.plan_password,
    "delete-user": permissions.plan_user_removal,
    "abort-transaction": transactions.plan_abort,
}
