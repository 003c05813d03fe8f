"""What `kafkalite migrate check` makes of a survey; the judges are pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from kafkalite.administration.broker_releases import Release
from kafkalite.cli.doctor.findings import Finding, Status
from kafkalite.cli.migrate.checks import judge_brokers, judge_metadata
from kafkalite.cli.migrate.survey import OpenTransactions, Side, Survey, SurveyedBroker, SurveyedMetadata, side_of
from kafkalite.client.admin.configs import ConfigEntry
from kafkalite.config.broker_keys import ACL_AUTHORIZER

OURS, THEIRS = Side.KAFKALITE, Side.APACHE_KAFKA
LATEST = Release(3, 9)


def entry(name: str, value: str | None, source: str = "STATIC_BROKER_CONFIG") -> ConfigEntry:
    return ConfigEntry(name, value, source, read_only=False, is_sensitive=value is None)


def broker(
    number: int, side: Side = THEIRS, release: Release | None = LATEST, **settings: str | None
) -> SurveyedBroker:
    """A broker with these settings, `_` for `.` in their names, set in its file."""
    given = {"inter.broker.protocol.version": "3.9-IV0"} | {
        key.replace("_", "."): each for key, each in settings.items()
    }
    return SurveyedBroker(
        number, f"b{number}:9092", side, release, {key: entry(key, each) for key, each in given.items()}
    )


def by_default(of: SurveyedBroker, name: str, value: str) -> SurveyedBroker:
    return replace(of, settings={**of.settings, name: entry(name, value, "DEFAULT_CONFIG")})


def survey(*brokers: SurveyedBroker, transactions: OpenTransactions | None = None, **metadata: Any) -> Survey:
    return Survey("id", 1, brokers, SurveyedMetadata(**{"cluster_id": "id", **metadata}), transactions)


def bad(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """Status and text of what is not well, each of which has a remedy."""
    found = [each for each in findings if each.status not in (Status.OK, Status.SKIPPED)]
    assert all(each.remedy for each in found)
    return [(str(each.status), f"{each.check}: {each.found}") for each in found]


def judge(of: Survey, target: Side = OURS) -> list[tuple[str, str]]:
    return bad([*judge_brokers(of, target), *judge_metadata(of, target)])


def test_what_is_well_has_no_findings_but_good_ones() -> None:
    found = [*judge_brokers(survey(broker(1), broker(2, OURS)), OURS), *judge_metadata(survey(broker(1)), OURS)]
    assert bad(found) == []
    assert found[0].found == "Apache Kafka 3.9: 1; kafkalite 3.9: 2. 1 of 2 to be replaced by kafkalite"
    assert {each.status for each in found} == {Status.OK, Status.SKIPPED}, "transactions are not listed before 3.0"


def test_a_broker_that_does_not_answer_is_named() -> None:
    silent = SurveyedBroker(3, "b3:9092", problem="Connection refused")
    assert judge(survey(broker(1), silent)) == [("problem", "brokers' kinds: broker 3 at b3:9092: Connection refused")]
    assert bad(judge_brokers(survey(silent), OURS)) == [
        ("problem", "brokers' kinds: broker 3 at b3:9092: Connection refused")
    ]


@pytest.mark.parametrize(("release", "what"), [(Release(1, 0), "Apache Kafka 1.0"), (None, "older than 1.1")])
def test_a_release_that_is_too_old(release: Release | None, what: str) -> None:
    found = judge(survey(broker(1, THEIRS, release, inter_broker_protocol_version="3.0")))
    assert found[0] == ("problem", f"brokers' kinds: broker 1 is {what}")


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        (
            (broker(1), broker(2, inter_broker_protocol_version="3.8-IV0")),
            "1 has 3.9-IV0; 2 has 3.8-IV0",
        ),
        ((broker(1, THEIRS, Release(3, 7)),), "3.9-IV0 is above broker 1, Apache Kafka 3.7"),
        ((broker(1, inter_broker_protocol_version="0.10.2"),), "0.10.2 on broker 1 is older than kafkalite speaks"),
        (
            (broker(1, inter_broker_protocol_version="x"),),
            "broker 1: inter.broker.protocol.version 'x' has no form like 3.9 or 2.7-IV2",
        ),
        (
            (by_default(broker(1, THEIRS, Release(2, 8)), "inter.broker.protocol.version", "2.8-IV1"),),
            "broker 1 has 2.8-IV1 by default, kafkalite's is 3.9-IV0",
        ),
    ],
)
def test_protocol_versions_that_do_not_fit(brokers: tuple[SurveyedBroker, ...], expected: str) -> None:
    found = bad(each for each in judge_brokers(survey(*brokers), OURS) if each.check == "inter.broker.protocol.version")
    assert found == [("problem", f"inter.broker.protocol.version: {expected}")]


def test_a_version_by_default_is_written_down_before_the_way_back() -> None:
    implied = by_default(broker(1, OURS), "inter.broker.protocol.version", "3.9-IV0")
    ((status, text),) = judge(survey(implied), THEIRS)
    assert status == "warning" and "releases of Apache Kafka have other defaults" in text
    assert judge(survey(implied), OURS) == []


def test_settings_that_differ_between_brokers() -> None:
    found = judge(survey(broker(1, min_insync_replicas="2"), broker(2, min_insync_replicas="1")))
    assert found == [("warning", "settings of all brokers: min.insync.replicas: 1 has 2; 2 has 1")]


def test_settings_that_the_other_side_does_not_take_or_ignores() -> None:
    theirs = broker(
        1,
        authorizer_class_name="com.example.Ranger",
        principal_builder_class="com.example.Builder",
        num_io_threads="8",
        my_own="x",
        ssl_keystore_password=None,
        node_id="1",
    )
    found = bad(judge_brokers(survey(theirs), OURS))
    assert [status for status, _ in found] == ["problem", "problem", "warning", "warning"]
    assert "com.example.Ranger" in found[0][1] and "settings: broker 1: " in found[0][1]
    assert "principal.builder.class is com.example.Builder" in found[1][1]
    assert "my.own is not known" in found[2][1]
    assert "num.io.threads has no effect" in found[3][1]
    assert judge(survey(replace(theirs, side=OURS)), OURS)[1:] == [], "who is on that side already is not judged"


def test_defaults_that_differ() -> None:
    theirs = by_default(broker(1, THEIRS, Release(2, 8)), "log.retention.hours", "24")
    found = judge(
        survey(replace(theirs, settings={**theirs.settings, **broker(1, inter_broker_protocol_version="2.8").settings}))
    )
    assert ("warning", "settings: broker 1: log.retention.hours is 24 by default, kafkalite's default is 168") in found


def test_the_order_of_a_list_is_no_difference() -> None:
    reordered = ",".join(
        reversed(["SASL_SSL:SASL_SSL", "PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT"])
    )
    assert judge(survey(by_default(broker(1), "listener.security.protocol.map", reordered))) == []


def test_a_broker_that_takes_part_in_a_move_to_kraft() -> None:
    moving = broker(1, zookeeper_metadata_migration_enable="true")
    assert judge(survey(moving)) == [
        ("problem", "settings: broker 1: zookeeper.metadata.migration.enable is true: it takes part in a move to KRaft")
    ]
    assert judge(survey(broker(1, zookeeper_metadata_migration_enable="false"))) == []


def test_own_settings_are_named_on_the_way_back() -> None:
    ours = broker(1, OURS, **{"kafkalite_http_listener": "localhost:80"})
    assert judge(survey(ours), THEIRS) == [
        ("warning", "settings: broker 1: Apache Kafka does not know kafkalite.http.listener")
    ]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (
            {"settings": {"topics/t": {"remote.storage.enable": "true"}}},
            ("problem", "settings of topics: t: Invalid value true for configuration remote.storage.enable"),
        ),
        ({"settings": {"topics/t": {"retention.ms": "x"}}}, ("problem", "settings of topics: t: Invalid value x")),
        (
            {"settings": {"topics/t": {"of.tomorrow": "x"}}},
            ("problem", "settings of topics: t: of.tomorrow is not known"),
        ),
        ({"settings": {"users/u": {"SCRAM-SHA-256": "…", "odd_rate": "1"}}}, ("warning", "quotas: users/u: odd_rate")),
        ({"settings": {"ips/10.0.0.1": {"producer_byte_rate": "1"}}}, ("warning", "quotas: ips/10.0.0.1: producer")),
        ({"acls": 3}, ("problem", "authorizer: 3 ACLs, and broker 1 without authorizer.class.name")),
        ({"tokens": 2}, ("problem", "delegation tokens: 2 tokens, and broker 1 without a key")),
        ({"features": {"metadata.version": 19}}, ("problem", "finalized features: metadata.version 19")),
        ({"moving": ("t",)}, ("problem", "reassignments: topics that move: t")),
        ({"deleting": ("t",)}, ("problem", "deletions: topics that are being deleted: t")),
        ({"unreadable": ("/config/topics/t: no JSON",)}, ("problem", "unreadable znodes: /config/topics/t: no JSON")),
        (
            {"transactions": OpenTransactions(2, ("x",))},
            ("problem", "transactions: 1 are open beyond their timeout: x"),
        ),
    ],
)
def test_what_is_in_zookeeper(metadata: dict[str, Any], expected: tuple[str, str]) -> None:
    ((status, text),) = judge(survey(broker(1), **metadata))
    assert (status, text[: len(expected[1])]) == expected


def test_acls_and_tokens_with_what_they_need_on_every_broker() -> None:
    guarded = broker(1, authorizer_class_name=ACL_AUTHORIZER, delegation_token_secret_key=None)
    assert judge(survey(guarded, acls=3)) == []
    ((status, _),) = judge(survey(guarded, tokens=2))
    assert status == "warning", "nobody tells whether the keys are the same"
    assert ("problem", f"authorizer: 1 has {ACL_AUTHORIZER}; 2 has nothing") in judge(survey(guarded, broker(2)))


def test_a_side_shows_in_the_settings() -> None:
    ours = {"kafkalite.failover.detection": entry("kafkalite.failover.detection", "evidence", "DEFAULT_CONFIG")}
    assert side_of(ours) is OURS
    from_our_file = {"kafkalite.failover.detection": entry("kafkalite.failover.detection", None)}
    assert side_of(from_our_file) is THEIRS, "Apache Kafka describes unknown settings of its file, too"


@pytest.mark.parametrize(("kept", "words"), [(None, "none"), ("other", "other")])
def test_zookeeper_of_another_cluster_or_without_the_chroot(kept: str | None, words: str) -> None:
    """Below a wrong chroot the tree is empty, and all of it well."""
    assert judge(survey(broker(1), cluster_id=kept)) == [
        ("problem", f"cluster id: {words} in ZooKeeper, id of the brokers")
    ]
