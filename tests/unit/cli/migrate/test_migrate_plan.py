"""The plan of a migration: the order of its steps, what is held, and that it is read as it was written."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kafkalite.administration.broker_releases import Release
from kafkalite.cli.doctor.findings import ok, problem, warning
from kafkalite.cli.migrate.plan import Plan, PlanError, find_unheld, format_plan, make_plan, parse_plan
from kafkalite.cli.migrate.survey import Side, Survey, SurveyedBroker
from kafkalite.client.admin.configs import ConfigEntry

NOW = datetime(2026, 11, 26, 13, 20, 5, 999, UTC)
VERSION, FORMAT = "inter.broker.protocol.version", "log.message.format.version"


def broker(number: int, side: Side = Side.APACHE_KAFKA, message_format: str = "2.8-IV1") -> SurveyedBroker:
    values = {VERSION: "2.8-IV1", FORMAT: message_format}
    settings = {name: ConfigEntry(name, value, "STATIC_BROKER_CONFIG", False, False) for name, value in values.items()}
    return SurveyedBroker(number, f"b{number}:9092", side, Release(2, 8), settings)


def plan_of(*brokers: SurveyedBroker, controller: int = 1) -> Plan:
    findings = [ok("a", "well"), warning("b", "odd", "look"), problem("c", 'it is "bad"\n\x7f', "repair it")]
    return make_plan(Survey("id", controller, brokers), Side.KAFKALITE, findings, NOW)


def test_the_controller_is_last_and_who_is_done_has_no_step() -> None:
    plan = plan_of(broker(1), broker(2, Side.KAFKALITE), broker(3), broker(10))
    assert [(each.broker, each.is_controller) for each in plan.steps] == [(3, False), (10, False), (1, True)]
    assert plan.done == (2,)
    assert plan.problems == ('c: it is "bad"\n\x7f',)
    assert plan.steps[0].kind == "Apache Kafka 2.8" and plan.steps[0].address == "b3:9092"
    controller = next(each for each in plan.steps[2].actions if "controller" in each)
    assert not any("controller" in each for each in plan.steps[0].actions) and controller


def test_settings_are_held_where_all_brokers_have_them_in_common() -> None:
    assert plan_of(broker(1), broker(2)).held == {VERSION: "2.8-IV1", FORMAT: "2.8-IV1"}
    assert plan_of(broker(1), broker(2, message_format="2.0")).held == {VERSION: "2.8-IV1"}


@pytest.mark.parametrize(
    ("value", "is_held"), [("2.8-IV1", True), ("2.8", True), ("2.8-IV0", False), ("3.9", False), ("", False)]
)
def test_a_broker_keeps_what_the_plan_holds(value: str, is_held: bool) -> None:
    plan = plan_of(broker(1), broker(2, message_format="2.0"))
    unheld = f"broker 2 has {VERSION}={value}, the plan holds 2.8-IV1: write that into its server.properties"
    assert find_unheld(plan.held, 2, {VERSION: value, FORMAT: "1.0"}) == ([] if is_held else [unheld])
    assert find_unheld(plan.held, 2, {}) == []


@pytest.mark.parametrize("brokers", [(), (broker(1), broker(2), broker(3))])
def test_a_plan_is_read_as_it_was_written(brokers: tuple[SurveyedBroker, ...]) -> None:
    plan = plan_of(*brokers)
    assert parse_plan(format_plan(plan)) == plan
    assert parse_plan(format_plan(replace(plan, problems=()))) == replace(plan, problems=())


@pytest.mark.parametrize(
    ("was", "becomes", "wrong"),
    [
        ("format = 1", "format = 2", "its format is 2, not 1"),
        ("format = 1", "form", "it is no TOML"),
        ('cluster_id = "id"', "", "it lacks cluster_id"),
        ('to = "kafkalite"', 'to = "planet"', "'planet' is not a valid Side"),
        ("broker = 1", 'broker = "1"', "'1' is no number"),
        ('address = "b1:9092"', "address = 1", "1 is no text"),
        ("made = 2026", "made = 1  # 2026", "1 is no time"),
        ('problems = ["x"]', "problems = 1", "'int' object is not iterable"),
    ],
)
def test_what_is_no_plan_is_refused_with_the_reason(was: str, becomes: str, wrong: str) -> None:
    text = format_plan(replace(plan_of(broker(1)), problems=())).replace("problems = []", 'problems = ["x"]')
    assert was in text
    with pytest.raises(PlanError, match=wrong):
        parse_plan(text.replace(was, becomes))


def test_actions_are_those_of_a_step() -> None:
    """Held settings are written before the first step, and by nobody in a step."""
    (step,) = plan_of(broker(1), controller=2).steps
    assert [each.split()[0] for each in step.actions] == ["wait", "note", "stop", "start", "wait", "let", "compare"]
