"""Changes of configurations and ACLs with their notifications, which are sequential znodes.

Change and notification are one transaction, so a session cannot end between them: a change without its notification would have no effect
on other brokers, and repeating it would change nothing.
"""

from __future__ import annotations

from zk.store import (
    BadVersionError,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    Store,
    StoreError,
    Write,
)
from zk.subtree import create_ancestors, read_if_there


async def change_and_announce(store: Store, change: Create | Write | Delete, notice: Create) -> None:
    """Carry out the change and create the notification, or neither; missing ancestors are created.

    Raises BadVersionError, NodeExistsError, NoNodeError or NotEmptyError when the change is refused, unless an earlier attempt whose reply
    was lost has carried it out. After SessionExpiredError the outcome is unknown.
    """
    while True:
        results = await store.multi([change, notice])
        refusals = [each for each in results if isinstance(each, StoreError)]
        if not refusals:
            return
        refusal = next((each for each in refusals if not isinstance(each, RolledBackError)), refusals[0])
        refused: Create | Write | Delete = change if refusal is results[0] else notice
        if isinstance(refusal, NoNodeError) and isinstance(refused, Create):
            await create_ancestors(store, refused.path)
        elif refused is change and await _is_carried_out(store, change, refusal):
            return
        else:
            raise refusal


async def _is_carried_out(store: Store, change: Create | Write | Delete, refusal: StoreError) -> bool:
    if isinstance(change, Delete):
        return isinstance(refusal, NoNodeError)
    if not isinstance(refusal, NodeExistsError | BadVersionError):
        return False
    version = 0 if isinstance(change, Create) else change.version + 1
    found = await read_if_there(store, change.path)
    return found is not None and found[0] == change.data and found[1].version == version
