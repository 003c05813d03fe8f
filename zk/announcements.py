"""Changes of a znode that others hear of by a notice, a sequential znode beside: configurations and ACLs.

The change and its notice are one transaction, so that no session may end between them: what is stored and was never announced would have
no effect on other brokers, and who asks for it again would find it done.
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
from zk.subtree import create_ancestors


async def change_and_announce(store: Store, change: Create | Write | Delete, notice: Create) -> None:
    """Carry out the change and create the notice, or neither; ancestors of what is created are created too.

    Raise BadVersionError, NodeExistsError, NoNodeError or NotEmptyError when the change is refused; not when it was carried out by an
    earlier attempt, whose answer was lost with the connection. SessionExpiredError leaves open what happened.
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
    try:
        data, stat = await store.read(change.path)
    except NoNodeError:
        return False
    return data == change.data and stat.version == (0 if isinstance(change, Create) else change.version + 1)
