"""From Kerberos principals to Kafka's: what Apache Kafka's KerberosShortNamer makes of them (its own examples among them)."""

from __future__ import annotations

import pytest

from kafkalite.security.kerberos_names import KerberosShortNames, NoMatchingRule

REALM = "REALM.COM"


def short(principal: str, *rules: str) -> str:
    return KerberosShortNames(rules or ("DEFAULT",)).short_name(principal, REALM)


@pytest.mark.parametrize(
    ("principal", "name", "rules"),
    [
        ("alice@REALM.COM", "alice", ()),
        ("kafka/host@REALM.COM", "kafka", ()),
        ("alice", "alice", ("RULE:[1:$1-x]",)),
        ("user@REALM.COM", "user", (r"RULE:[1:$1](.*)",)),
        ("App.service-name@REALM.COM", "service-name", (r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g", "DEFAULT")),
        ("App.service-name@REALM.COM", "App", (r"RULE:[1:$1](App\..*)s/(.*)\..*/$1/", "DEFAULT")),
        ("user/host@OTHER.COM", "user-host", ("RULE:[2:$1-$2]", "DEFAULT")),
        ("User@REALM.COM", "user", ("RULE:[1:$1]/L",)),
        ("User@REALM.COM", "USER", (r"RULE:[1:$1](.*)s/x/y/U",)),
        ("aabb@REALM.COM", "xabb", ("RULE:[1:$1]s/a/x/",)),
        ("aabb@REALM.COM", "xxbb", ("RULE:[1:$1]s/a/x/g",)),
        ("aabb@REALM.COM", "XXBB", ("RULE:[1:$1]s/a/x/g/U",)),
        ("admin@OTHER.COM", "root", (r"RULE:[1:$1@$0](.*@OTHER\.COM)s/.*/root/", "DEFAULT")),
        ("alice@REALM.COM", "alice", (r"RULE:[1:$1@$0](.*@OTHER\.COM)s/.*/root/", "DEFAULT")),
    ],
)
def test_the_first_rule_that_applies_names_the_principal(principal: str, name: str, rules: tuple[str, ...]) -> None:
    assert short(principal, *rules) == name


@pytest.mark.parametrize(
    ("principal", "rules"),
    [
        ("alice@OTHER.COM", ()),
        ("alice@REALM.COM", ("RULE:[2:$1]",)),
        ("alice@REALM.COM", ("RULE:[1:$1@$0]",)),  # what it makes is no simple name
    ],
)
def test_who_is_named_by_no_rule_has_no_name(principal: str, rules: tuple[str, ...]) -> None:
    with pytest.raises(NoMatchingRule):
        short(principal, *rules)


@pytest.mark.parametrize("principal", ["", "a/b/c@R", "a@b@c", "/host@R"])
def test_what_is_no_principal_has_no_name(principal: str) -> None:
    with pytest.raises(ValueError, match="no name of a Kerberos principal"):
        short(principal)


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "default",
        "RULE:[1:$1",
        "RULE:[1:$2]",
        "RULE:[0:x]",
        "RULE:[1:$1](()",
        "RULE:[1:$1]s/(a)/$2/",
        "RULE:[1:$1]/X",
    ],
)
def test_rules_that_cannot_be_read_are_known(rule: str) -> None:
    with pytest.raises(ValueError):
        KerberosShortNames((rule,))
    KerberosShortNames(("RULE:[1:$1]", "DEFAULT"))
