"""C15 to C17: the cluster serves again once it is healed, keeps nothing, and obeys one controller."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalite.testing.history.events import ControllerElected, ControllerWrote
from kafkalite.testing.history.facts import Facts
from kafkalite.types import NO_BROKER


def healed_cluster_serves(facts: Facts) -> Iterator[tuple[object, str | None]]:
    """C15."""
    for served in facts.served:
        if served.error:
            yield served.what, f"failed after everything was healed: {served.error}"
        elif served.took_ms > served.bound_ms:
            yield served.what, f"took {served.took_ms} ms after everything was healed, and may take {served.bound_ms}"
        else:
            yield served.what, None


def resources_come_back(facts: Facts) -> Iterator[tuple[object, str | None]]:
    """C16: what is counted at the end is the baseline, and the slack that it is given."""
    for (process, resource), seen in facts.resources.items():
        baselines = [each.count for each in seen if each.is_baseline]
        later = [each for each in seen if not each.is_baseline]
        if baselines and later:
            last = later[-1]
            text = f"{last.count} {resource}, {max(baselines)} before and {last.slack} more are allowed"
            yield process, text if last.count > max(baselines) + last.slack else None


def one_controller_writes(facts: Facts) -> Iterator[tuple[object, str | None]]:
    """C17: controller epochs increase, and nothing is written in an older one than was claimed before (in the order of ZooKeeper)."""
    epoch, broker, claimed_at = -1, NO_BROKER, -1
    rows: list[ControllerElected | ControllerWrote] = [*facts.elections, *facts.controller_writes]
    for each in sorted(rows, key=lambda row: (row.zxid, isinstance(row, ControllerWrote))):
        if isinstance(each, ControllerElected):
            finding = None
            if each.controller_epoch <= epoch and each.zxid != claimed_at:  # else it was only seen twice
                finding = (
                    f"broker {each.broker} claimed epoch {each.controller_epoch} after broker {broker} had {epoch}"
                )
            yield "the controller", finding
            epoch, broker, claimed_at = each.controller_epoch, each.broker, each.zxid
        elif each.controller_epoch < epoch:
            yield each.path, f"written in epoch {each.controller_epoch} after broker {broker} claimed {epoch}"
        elif each.controller_epoch == epoch and NO_BROKER not in (each.broker, broker) and each.broker != broker:
            yield each.path, f"written by broker {each.broker} in epoch {epoch}, which is broker {broker}'s"
        else:
            yield each.path, None
