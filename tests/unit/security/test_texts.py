"""Texts of security settings: JAAS lines, rules for names in certificates, names themselves."""

from __future__ import annotations

import pytest

from kafkalite.security.distinguished_name import rfc2253
from kafkalite.security.jaas import parse_jaas_file, parse_jaas_line
from kafkalite.security.principal_mapping import NoMatchingRule, PrincipalMapping


def test_a_jaas_line_has_options_whatever_is_in_their_quotation_marks() -> None:
    line = 'x.PlainLoginModule required username="a;b" password="p\\"\\\\q=" user_a=\'it\' user_b=plain;'
    module = parse_jaas_line(line)
    assert module.name == "x.PlainLoginModule"
    assert module.options == {"username": "a;b", "password": 'p"\\q=', "user_a": "it", "user_b": "plain"}
    assert "plain" not in repr(module)


def test_a_jaas_file_has_sections_and_comments() -> None:
    text = """
    // brokers
    KafkaServer { x.Plain REQUIRED user="1"; /* and */ x.Scram required
      # none
      ; };
    internal.KafkaServer { };
    """
    sections = parse_jaas_file(text)
    assert [each.name for each in sections["KafkaServer"]] == ["x.Plain", "x.Scram"]
    assert sections["internal.KafkaServer"] == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x.Plain",
        'x.Plain required password="s3cret"',
        'x.Plain perhaps password="s3cret";',
        'x.Plain required password "s3cret";',
        'x.Plain required password="s3cret;',
        'x.Plain required a="s3cret"; x.Other required;',
        "x.Plain required" + " " * 5000,
    ],
)
def test_a_broken_jaas_line_is_refused_without_its_secret(text: str) -> None:
    with pytest.raises(ValueError) as problem:
        parse_jaas_line(text)
    assert "s3cret" not in str(problem.value)


NAME = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ("DEFAULT", NAME),
        ("", NAME),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke"),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "duke"),
        (r"RULE:^cn=(.*)$/$1/L, RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/U,DEFAULT", "DUKE@SERVICEUSERS"),
        (r"RULE:^.*CN=([^,]+).*$/a\/$1/,DEFAULT", "a/Duke"),
        (r"RULE:^CN=nobody$/x/,DEFAULT", NAME),
    ],
)
def test_the_first_rule_that_matches_names_the_principal(rules: str, found: str) -> None:
    assert PrincipalMapping(rules).name_of(NAME) == found


def test_whom_no_rule_names_has_no_principal() -> None:
    with pytest.raises(NoMatchingRule):
        PrincipalMapping("RULE:^CN=nobody$/x/").name_of(NAME)


@pytest.mark.parametrize("rules", ["RULE:a", "RULE:(/x/", "RULE:a/b/X", "OTHER", "DEFAULT,,"])
def test_rules_that_cannot_be_read_are_refused(rules: str) -> None:
    with pytest.raises(ValueError):
        PrincipalMapping(rules)


def der(tag: int, content: bytes) -> bytes:
    return bytes([tag, len(content)]) + content


def attribute(oid: bytes, tag: int, text: bytes) -> bytes:
    return der(0x31, der(0x30, der(6, oid) + der(tag, text)))


def test_names_are_written_as_java_writes_them() -> None:
    mail = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x01"
    name = der(
        0x30,
        attribute(b"\x55\x04\x06", 0x13, b"DE")
        + attribute(b"\x55\x04\x03", 0x0C, b" a,b+c ")
        + attribute(mail, 0x16, b"x"),
    )
    assert rfc2253(name) == r"1.2.840.113549.1.9.1=#160178,CN=\ a\,b\+c\ ,C=DE"
    for broken in (b"", b"\x30", b"\x30\x7f", name[:-1]):
        with pytest.raises(ValueError):
            rfc2253(broken)
