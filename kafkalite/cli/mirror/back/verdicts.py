"""Judges which topics can be copied back, by what both sides have of them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkalite.cli.mirror.administered.state import TopicState
    from kafkalite.cli.mirror.plan import KnownTopic

_DELETE: Final = "delete it in the source, or call this with --delete-topics"


def judge_topic(name: str, known: KnownTopic, ours: TopicState | None, theirs: TopicState | None) -> str:
    """Return why a topic of the source (`ours`) cannot be copied back from the target (`theirs`) and what to do, empty if it can or there
    is nothing to be copied. None stands for a topic that its side says it does not have.
    """
    if (
        known.is_unconfirmed
    ):  # what the source has is not known to be of the mirror: the plan of changes says what to do
        return ""
    if theirs is None:
        return "" if ours is None else f"topic {name} is not in the target any more: {_DELETE}"
    if theirs.topic_id != known.target_id:
        gone = f"topic {name} was deleted in the target and made again, and is not copied: {_DELETE}"
        return "" if ours is None else gone
    if ours is None:
        gone = f"topic {name} is not in the source any more, and is not copied"
        return f"{gone}: delete it in the target, or keep it there and return once nothing else is named"
    if ours.topic_id != known.source_id:
        return f"topic {name} was deleted in the source and made again, and is not copied: delete it in the source"
    if ours.partitions > theirs.partitions:
        return f"topic {name} has got more partitions in the source: give it as many in the target"
    return ""
