"""Where a follower truncates its log to agree with its leader's (KIP-101, KIP-279, KIP-595). Pure."""

from __future__ import annotations

from collections.abc import Callable


def truncation_offset(
    own_end_for: Callable[[int], tuple[int, int]],
    leader_epoch: int,
    leader_end_offset: int,
    log_end_offset: int,
    fallback: int,
) -> int:
    """Return where a follower truncates, given where the leader's log ends for an epoch (AbstractFetcherThread.getOffsetTruncationState).

    `own_end_for(epoch)` is the follower's own (epoch, end offset); `fallback` is used when the leader knows nothing of the epoch.
    """
    if leader_end_offset < 0:
        return min(fallback, log_end_offset)
    if leader_epoch < 0:
        return min(leader_end_offset, log_end_offset)
    own_epoch, own_end = own_end_for(leader_epoch)
    if own_end < 0:
        return min(leader_end_offset, log_end_offset)
    if own_epoch != leader_epoch:
        return min(own_end, log_end_offset)
    return min(own_end, leader_end_offset, log_end_offset)
