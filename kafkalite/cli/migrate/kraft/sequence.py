"""Which server of a plan takes which form next, or goes back, by the plan and the journal. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalite.cli.migrate.kraft.forms import Form, Role, find_form_before
from kafkalite.cli.migrate.kraft.plan import KraftPlan
from kafkalite.cli.migrate.sequence import (
    Act,
    Entry,
    NothingLeftError,
    Replacement,
    SequenceError,
    count_replacements,
    find_unfinished,
    was_stopped,
)


def choose_step(plan: KraftPlan, entries: Sequence[Entry]) -> Replacement:
    """Return the step that was begun, else the next one of the plan. Raises SequenceError."""
    forms, unfinished = find_forms(plan, entries), find_unfinished(entries)
    if unfinished is not None:
        if _is_back(forms, unfinished):
            raise SequenceError(
                f"the rollback of server {unfinished.broker} is not finished: kafkalite migrate kraft rollback"
            )
        return unfinished
    for step in plan.steps:
        if forms[step.server].place < step.form.place:
            return Replacement(count_replacements(entries) + 1, step.server, step.form)
    raise NothingLeftError("all steps of the plan are done")


def choose_rollback(plan: KraftPlan, entries: Sequence[Entry]) -> Replacement:
    """Return the rollback that was begun, else that of the last step that was done, or begun so far that its server was stopped.

    Raises SequenceError where there is no way back: from the first controller on that leaves migration mode.
    """
    forms, unfinished, number = find_forms(plan, entries), find_unfinished(entries), count_replacements(entries) + 1
    if unfinished is not None and _is_back(forms, unfinished):
        return unfinished
    if unfinished is not None and was_stopped(entries, unfinished):
        _refuse_final(plan, unfinished.broker, Form(unfinished.target))
        return Replacement(number, unfinished.broker, forms[unfinished.broker])
    for step in reversed(plan.steps):
        if forms[step.server].place >= step.form.place:
            return Replacement(number, step.server, _refuse_final(plan, step.server, step.form))
    raise NothingLeftError("no server has taken another form by this plan")


def find_forms(plan: KraftPlan, entries: Sequence[Entry]) -> dict[int, Form]:
    """Return the form of each server of the plan, by what was done."""
    forms: dict[int, Form] = {}
    for step in plan.steps:
        forms.setdefault(step.server, list(Form)[step.form.place - 1])
    for each in entries:
        if each.act is Act.VERIFY and each.is_done and isinstance(each.replacement.target, Form):
            forms[each.replacement.broker] = each.replacement.target
    return forms


def find_role(plan: KraftPlan, server: int) -> Role:
    """Return the role of a server of the plan."""
    return Role.CONTROLLER if server in {each.id for each in plan.voters} else Role.BROKER


def _is_back(forms: dict[int, Form], replacement: Replacement) -> bool:
    target = replacement.target
    return isinstance(target, Form) and target.place <= forms[replacement.broker].place


def _refuse_final(plan: KraftPlan, server: int, form: Form) -> Form:
    """Return the form before. Raises SequenceError where there is none to go back to."""
    role = find_role(plan, server)
    before = find_form_before(form, role)
    if before is None:
        raise SequenceError(
            f"{role} {server} has left migration mode, or was stopped for that: there is no way back to ZooKeeper. Go on"
        )
    return before
