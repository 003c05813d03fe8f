"""What runs read: whatever comes when, each record of an archived date is in exactly one run, and repeating changes nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.batch.plan import (
    LateDates,
    LogBounds,
    RunPlan,
    Whereabouts,
    chunks,
    frontiers,
    is_newest,
    late_dates,
    leave_undated,
    lost_before_reading,
    lost_of_plan,
    plan_runs,
    progress,
    read_ranges,
    same_frontiers,
    take_late,
    take_undated,
)

FIRST = date(2013, 6, 1)


def day(number: int) -> date:
    return FIRST + timedelta(days=number)


def run(number: int, coverage: dict[int, int], late: tuple[LateDates, ...] = ()) -> RunPlan:
    return RunPlan("t", "id", day(number), {p: (0, end) for p, end in coverage.items()}, coverage, late)


def bounds(end: dict[int, int], begin: dict[int, int] | None = None) -> LogBounds:
    return LogBounds("t", "id", begin or dict.fromkeys(end, 0), end)


def test_a_date_is_read_from_its_first_record_to_the_end() -> None:
    (plan,) = plan_runs(bounds({0: 100, 1: 50}), {day(0): {0: 30}})
    assert plan.ranges == {0: (30, 100), 1: (50, 50)}
    assert plan.coverage == {0: 100, 1: 50}
    assert read_ranges([plan]) == {0: (30, 100)}


def test_first_run_takes_late_records_of_archived_dates() -> None:
    known = frontiers([run(0, {0: 10}), run(1, {0: 10}), run(3, {0: 25})])
    plans = plan_runs(bounds({0: 40}), {day(4): {0: 38}, day(5): {0: 40}})
    first, second = take_late(plans, known, {0: 0})
    assert first.late == (LateDates(day(0), day(1), {0: 10}), LateDates(day(3), day(3), {0: 25}))
    assert second.late == ()
    assert read_ranges([first, second]) == {0: (10, 40)}


def test_dates_that_are_not_archived_are_no_part_of_a_group() -> None:
    known = {day(number): {0: 5} for number in (0, 1, 3)}
    groups = late_dates(known, bounds({0: 9}), [])
    assert [(group.first, group.last) for group in groups] == [(day(0), day(1)), (day(3), day(3))]


def test_late_records_that_a_run_took_move_the_frontier() -> None:
    late = (LateDates(day(0), day(0), {0: 10}),)
    assert frontiers([run(0, {0: 10}), run(1, {0: 30}, late)]) == {day(0): {0: 30}, day(1): {0: 30}}


def test_new_partition_is_late_from_its_beginning() -> None:
    (group,) = late_dates({day(0): {0: 10}}, bounds({0: 10, 1: 7}), [])
    assert group.start == {0: 10, 1: 0}


def test_narrow_leaves_out_partitions_without_records() -> None:
    (plan,) = plan_runs(bounds({0: 100, 1: 50}), {day(0): {0: 30, 1: 0}})
    narrowed = Whereabouts({0: (40, 60)}, {}).narrow_plan(plan)
    assert read_ranges([narrowed]) == {0: (40, 60)}
    assert narrowed.coverage == plan.coverage


def test_what_retention_took_is_told() -> None:
    assert lost_before_reading({day(0): {0: 10}, day(1): {0: 20}}, {0: 25}) == {0: (20, 25)}
    assert lost_before_reading({day(0): {0: 10}}, {0: 10}) == {}
    assert lost_of_plan(run(0, {0: 50}), {0: 20}) == {0: (0, 20)}
    assert lost_of_plan(run(0, {0: 50}), {0: 80}) == {0: (0, 50)}


def test_chunks_are_spans_of_days_that_were_planned_together() -> None:
    plans = [run(number, {0: 10}) for number in (0, 1, 4, 5)] + [run(6, {0: 12})]
    assert [[plan.date for plan in group] for group in chunks(plans, 5)] == [
        [day(0), day(1), day(4)],
        [day(5)],
        [day(6)],
    ]


def test_progress_is_how_far_the_newest_run_has_looked() -> None:
    assert progress([run(1, {0: 10, 1: 3}), run(0, {0: 7, 1: 5})]) == {0: 10, 1: 5}


def test_only_the_newest_run_may_be_planned_again() -> None:
    assert is_newest(run(0, {0: 10}), [run(1, {0: 10}), run(2, {0: 9})])
    assert not is_newest(run(0, {0: 10}), [run(1, {0: 11})])
    assert not is_newest(run(0, {0: 10}), [run(1, {0: 10, 1: 1})])


def test_same_frontiers() -> None:
    known = {day(0): {0: 1}, day(1): {0: 2}, day(2): {0: 1}}
    assert same_frontiers(known) == [([day(0), day(2)], {0: 1}), ([day(1)], {0: 2})]


@dataclass
class Simulation:
    """A log that grows between runs, and an archive of what the plans' rules pick from it."""

    log: dict[int, list[int]] = field(default_factory=lambda: {0: [], 1: []})
    """The day of each record, by partition; its place is its offset."""
    done: dict[date, RunPlan] = field(default_factory=dict)
    pending: dict[date, RunPlan] = field(default_factory=dict)
    archive: dict[date, Counter[tuple[date, int, int]]] = field(default_factory=dict)
    """What each run has: (date, partition, offset)."""

    def bounds(self) -> LogBounds:
        return bounds({p: len(records) for p, records in self.log.items()})

    def plan(self, days: list[int]) -> list[RunPlan]:
        """As `archive.plan` and `backfill.plan` put the rules together."""
        known = frontiers(self.done.values())
        fresh = {
            day(number): {
                p: next((o for o, each in enumerate(records) if each >= number), len(records))
                for p, records in self.log.items()
            }
            for number in days
            if day(number) not in self.pending
        }
        plans = plan_runs(self.bounds(), fresh)
        plans += [self.pending[day(number)] for number in days if day(number) in self.pending]
        found = []
        for group in chunks(plans, 3):
            found += take_late(group, known, {0: 0, 1: 0})
            known = frontiers([*self.done.values(), *found])
        return found

    def carry_out(self, plan: RunPlan) -> None:
        picked: Counter[tuple[date, int, int]] = Counter()
        for p, (start, end) in read_ranges([plan]).items():
            for offset in range(start, end):
                when = day(self.log[p][offset])
                late = any(group.first <= when <= group.last and offset >= group.start[p] for group in plan.late)
                if when == plan.date or late:
                    picked[when, p, offset] += 1
        self.archive[plan.date] = picked
        self.done[plan.date] = plan
        self.pending.pop(plan.date, None)

    def check(self) -> None:
        archived: Counter[tuple[date, int, int]] = Counter()
        for picked in self.archive.values():
            archived += picked
        known = frontiers(self.done.values())
        due = Counter(
            (day(number), p, offset)
            for p, records in self.log.items()
            for offset, number in enumerate(records)
            if day(number) in known and offset < known[day(number)].get(p, 0)
        )
        assert archived == due


DAYS = st.integers(0, 5)
STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 1), st.lists(DAYS, min_size=1, max_size=4)),
    st.tuples(st.just("run"), st.lists(DAYS, min_size=1, max_size=4, unique=True), st.booleans()),
    st.tuples(st.just("repeat"), DAYS, st.none()),
    st.tuples(st.just("refresh"), DAYS, st.none()),
)


@settings(max_examples=300)
@given(st.lists(STEPS, max_size=14))
def test_each_record_is_in_exactly_one_run(steps: list[tuple]) -> None:
    world = Simulation()
    for what, one, other in steps:
        if what == "append":
            world.log[one] += other
        elif what == "run":
            # With `other` all of it is planned, and only the first date is done before the crash.
            plans = world.plan([number for number in sorted(one) if day(number) not in world.done])
            world.pending |= {plan.date: plan for plan in plans}
            for plan in plans[:1] if other else plans:
                world.carry_out(plan)
        elif day(one) in world.done and what == "repeat":
            before = world.archive[day(one)]
            world.carry_out(world.done[day(one)])
            assert world.archive[day(one)] == before
        elif day(one) in world.done:
            others = [plan for when, plan in world.done.items() if when != day(one)]
            if is_newest(world.done[day(one)], others):
                known = frontiers(others)
                (plan,) = plan_runs(world.bounds(), {day(one): {0: 0, 1: 0}})
                world.carry_out(take_late([plan], known, {0: 0, 1: 0})[0])
        world.check()


@pytest.mark.parametrize("count", [0, 1, 5])
def test_years_of_dates_are_few_groups(count: int) -> None:
    known = {day(number): {0: 10} for number in range(1000)}
    for number in range(count):
        known[day(100 * number + 50)] = {0: 9}
    assert len(late_dates(known, bounds({0: 11}), [])) == 2 * count + 1


def undated_run(number: int, start: int, end: int, done: list[RunPlan]) -> RunPlan:
    """A run whose date's records begin at `start`, planned when the log ended at `end`."""
    (plan,) = plan_runs(bounds({0: end}), {day(number): {0: start}})
    return take_undated(plan, done, {0: 0})


def test_the_first_run_takes_undated_records_among_its_own() -> None:
    plan = undated_run(1, 30, 100, [])
    assert plan.undated == {0: ((30, 100),)}
    assert read_ranges([Whereabouts({}, {0: (30, 100)}).narrow_plan(plan)]) == {0: (30, 100)}


def test_a_later_run_takes_undated_records_from_where_the_newest_run_ended() -> None:
    done = [undated_run(1, 30, 100, [])]
    assert undated_run(2, 110, 150, done).undated == {0: ((100, 150),)}
    assert undated_run(2, 90, 150, done).undated == {0: ((100, 150),)}
    assert undated_run(0, 10, 150, done).undated == {0: ((10, 30), (100, 150))}
    assert undated_run(2, 100, 100, done).undated == {}


def test_runs_of_before_took_no_undated_records() -> None:
    assert undated_run(2, 110, 150, [run(1, {0: 100})]).undated == {0: ((100, 150),)}


def test_undated_records_that_the_log_has_lost_are_not_planned() -> None:
    (plan,) = plan_runs(bounds({0: 150}, {0: 120}), {day(2): {0: 130}})
    assert take_undated(plan, [run(1, {0: 100})], {0: 120}).undated == {0: ((120, 150),)}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40), st.integers(0, 30)), max_size=8))
def test_each_undated_record_is_in_one_run(lives: list[tuple[int, int, int]]) -> None:
    """Whatever dates are run in whatever order, from the first one's begin on."""
    done: list[RunPlan] = []
    end, taken = 40, Counter[int]()
    for number, start, grown in lives:
        end += grown
        plan = undated_run(number, start, end, [each for each in done if each.date != day(number)])
        if any(each.date == day(number) for each in done):
            continue  # repeated as it was recorded
        done.append(plan)
        for first, last in plan.undated.get(0, ()):
            taken.update(range(first, last))
        assert leave_undated(plan, [plan]).undated == {}
    assert set(taken.values()) <= {1}
    if done:
        assert set(taken) >= set(range(done[0].ranges[0][0], done[-1].coverage[0]))


def test_known_whereabouts_narrow_what_is_read() -> None:
    plan = undated_run(0, 10, 150, [undated_run(1, 30, 100, [])])
    known = Whereabouts({0: (12, 20)}, {0: (25, 140)})
    assert known.narrow_plan(plan).undated == {0: ((25, 30), (100, 140))}
    assert known.narrow_plan(plan).ranges == {0: (12, 20)}
    assert Whereabouts({}, {}).narrow_plan(plan).undated == {}
