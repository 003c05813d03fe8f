"""C11 and C12: what groups committed, what they read of it, and who had which partition.

The members of these histories only read forward, from what was committed; so offsets never go back, except to those of a commit whose fate
is open: it may take effect at any time until a later generation has committed, because coordinators refuse what comes of an earlier one. A
commit of a transaction counts from the moment when its end was asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from operator import attrgetter, itemgetter
from typing import Final

from kafkalite.testing.history.events import NO_OFFSET, UNKNOWN_GENERATION, OffsetFetched
from kafkalite.testing.history.facts import Commit, Facts, GroupFacts, GroupPartition, Outcome
from kafkalite.testing.history.rules.findings import Findings
from kafkalite.types import TopicPartition

_NEVER: Final = -1


def offsets_are_those_committed(facts: Facts) -> Iterator[tuple[object, str | None]]:
    """C11: OffsetFetch tells the last commit that was acknowledged, or one whose fate is open, and never less than it had told."""
    transactional = _commits_of_transactions(facts)
    for subject in dict.fromkeys([*facts.groups, *transactional]):
        group = facts.groups.get(subject, GroupFacts())
        commits = group.commits + transactional.get(subject, [])
        open_commits = _OpenCommits(commits)
        findings = chain(
            _told_what_was_committed(group.fetches, commits),
            _told_in_order(group.fetches, open_commits),
            _committed_in_order(commits, open_commits),
            _committed_was_read(facts, subject, commits),
        )
        yield from ((subject, finding) for finding in findings)


def _commits_of_transactions(facts: Facts) -> dict[GroupPartition, list[Commit]]:
    found: dict[GroupPartition, list[Commit]] = defaultdict(list)
    for transaction in facts.transactions.values():
        for each in transaction.offsets:
            subject = GroupPartition(each.group, TopicPartition(each.topic, each.partition))
            # one that nobody asked to commit has no effect, unless its end is not known
            invoked_ns = each.at_ns if transaction.end_invoked_ns is None else transaction.end_invoked_ns
            commit = Commit(str(transaction), each.offset, invoked_ns, transaction.outcome, transaction.ended_ns)
            found[subject].append(commit)
    return found


def _told_what_was_committed(fetches: list[OffsetFetched], commits: list[Commit]) -> Findings:
    by_offset: dict[int, list[Commit]] = defaultdict(list)
    acknowledged: list[Commit] = []
    for commit in commits:
        if commit.outcome is not Outcome.FAILED:
            by_offset[commit.offset].append(commit)
        if commit.outcome is Outcome.OK:
            acknowledged.append(commit)
    acknowledged.sort(key=lambda commit: commit.ended_ns or 0)
    ended_ns = [commit.ended_ns or 0 for commit in acknowledged]
    latest: list[Commit] = []
    for commit in acknowledged:
        latest.append(max(commit, latest[-1], key=attrgetter("invoked_ns")) if latest else commit)
    for told in fetches:
        earlier = bisect_right(ended_ns, told.asked_ns)
        last = latest[earlier - 1] if earlier else None
        if told.offset == NO_OFFSET:
            yield (
                None if last is None else f"{told.observer} was told of no offset after {last.offset} was acknowledged"
            )
            continue
        known = [commit for commit in by_offset[told.offset] if commit.invoked_ns <= told.at_ns]
        if not known:
            yield f"{told.observer} was told of {told.offset}, which nobody had committed"
        elif last is not None and all(_is_replaced(commit, last) for commit in known):
            yield f"{told.observer} was told of {told.offset} after {last.offset} was acknowledged"
        else:
            yield None


def _is_replaced(commit: Commit, last: Commit) -> bool:
    """True if `commit` had ended before `last` began. One of unknown fate may still come, as long as its generation lasts."""
    if commit.outcome is Outcome.UNKNOWN:
        return _is_fenced(commit.generation, last.generation)
    return (
        commit is not last
        and commit.outcome is Outcome.OK
        and commit.ended_ns is not None
        and commit.ended_ns <= last.invoked_ns
    )


def _is_fenced(generation: int, later: int) -> bool:
    """True if what was sent in one generation has no effect once the other has committed; both must be known."""
    return UNKNOWN_GENERATION != generation < later


class _OpenCommits:
    """Those that were neither acknowledged nor refused."""

    def __init__(self, commits: list[Commit]) -> None:
        self._commits = [each for each in commits if each.outcome is Outcome.UNKNOWN]
        self._of_generations: dict[int, tuple[list[int], list[int]]] = {}
        """When they began, and the lowest offset of those up to each, of such as a commit of this generation does not end."""

    def floor(self, offset: int, at_ns: int, generation: int = UNKNOWN_GENERATION) -> int:
        """Return the offset to which they may set back a group that has committed `offset`, in this generation."""
        if generation not in self._of_generations:
            left = [each for each in self._commits if not _is_fenced(each.generation, generation)]
            invoked = sorted((each.invoked_ns, each.offset) for each in left)
            lowest = list(accumulate((offset for _, offset in invoked), min))
            self._of_generations[generation] = [invoked_ns for invoked_ns, _ in invoked], lowest
        invoked_ns, lowest = self._of_generations[generation]
        earlier = bisect_right(invoked_ns, at_ns)
        return min(offset, lowest[earlier - 1]) if earlier else offset


def _told_in_order(fetches: list[OffsetFetched], open_commits: _OpenCommits) -> Findings:
    told: list[tuple[int, int]] = []
    for each in sorted(fetches, key=attrgetter("at_ns")):
        earlier = bisect_right(told, each.asked_ns, key=itemgetter(0))
        before = told[earlier - 1][1] if earlier else NO_OFFSET
        yield (
            None
            if each.offset >= open_commits.floor(before, each.at_ns)
            else f"{each.observer} was told of {each.offset} after {before} had been told"
        )
        told.append((each.at_ns, max(each.offset, told[-1][1] if told else NO_OFFSET)))


def _committed_in_order(commits: list[Commit], open_commits: _OpenCommits) -> Findings:
    floor, holder, generation = _NEVER, "", UNKNOWN_GENERATION
    for _, is_end, commit in _moments(commits):
        if is_end:
            if (commit.offset, commit.member) >= (floor, holder):
                floor, holder, generation = commit.offset, commit.member, commit.generation
        else:
            text = f"{commit.member} committed {commit.offset} after {holder} had committed {floor}"
            yield None if commit.offset >= open_commits.floor(floor, commit.invoked_ns, generation) else text


def _committed_was_read(facts: Facts, subject: GroupPartition, commits: list[Commit]) -> Findings:
    """Below an acknowledged commit every record that members read at all was given to one; where it is known who they are."""
    members = [name for name, reader in facts.readers.items() if reader.group == subject.group]
    highest = max((commit.offset for commit in commits if commit.outcome is Outcome.OK), default=0)
    partition = facts.partitions.get(subject.partition)
    if not members or not highest or partition is None:
        return
    there: Iterable[int] = range(highest)
    if all(map(facts.reads_committed, members)) and partition.committed_drains:
        there = [offset for offset, _ in partition.list_drained(committed=True)]
    elif partition.drains:
        there = [offset for offset, _ in partition.list_drained()]
    read = {each.offset for member in members for each in partition.readers.get(member, ())}
    skipped = [offset for offset in there if offset < highest and offset not in read]
    yield f"{highest} is committed, and no member has read {skipped[:5]}" if skipped else None


def _moments(commits: list[Commit]) -> list[tuple[int, bool, Commit]]:
    """Return beginnings and ends of acknowledged commits, in their order."""
    moments = []
    for commit in commits:
        if commit.outcome is Outcome.OK and commit.ended_ns is not None:
            moments += [(commit.invoked_ns, False, commit), (commit.ended_ns, True, commit)]
    return sorted(moments, key=itemgetter(0, 1))


def partitions_have_one_owner(facts: Facts) -> Iterator[tuple[object, str | None]]:
    """C12: in a generation a partition has one member, and once a generation has committed, earlier ones do not."""
    for subject, group in facts.groups.items():
        owners: dict[int, str] = {}
        for assigned in group.assigned:
            if assigned.generation != UNKNOWN_GENERATION:
                owner = owners.setdefault(assigned.generation, assigned.member)
                both = f"{owner} and {assigned.member} have it in generation {assigned.generation}"
                yield subject, None if owner == assigned.member else both
        newest, who = UNKNOWN_GENERATION, ""
        for _, is_end, commit in _moments(group.commits):
            if commit.generation == UNKNOWN_GENERATION:
                continue
            if is_end:
                newest, who = max((commit.generation, commit.member), (newest, who))
                continue
            late = f"{commit.member} committed in generation {commit.generation}, after {who} had in {newest}"
            yield subject, None if commit.generation >= newest else late
