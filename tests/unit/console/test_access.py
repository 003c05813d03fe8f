"""Who is answered by the console, and what its answers say to browsers."""

from __future__ import annotations

import asyncio
from base64 import b64encode

import pytest
from starlette.responses import PlainTextResponse

from kafkalite.console import access
from kafkalite.console.access import Access, Guard, is_loopback
from kafkalite.net.login import Login
from tests.case import case
from tests.unit.console.asgi_client import HOST, Answer, ask

BASIC = "Basic " + b64encode(b"ann:secret").decode()
OPEN = Access(names=("console.example",))


def answer(allowed: Access, body: object = None, *, method: str | None = None, **headers: str) -> Answer:
    return asyncio.run(ask(Guard(PlainTextResponse("in"), allowed), "/", body, method=method, **headers))


def test_only_names_of_this_machine_are_answered() -> None:
    for host, is_ours in {
        HOST: True,
        "localhost:8980": True,
        "LOCALHOST": True,
        "[::1]:8980": True,
        "192.168.1.7:8980": True,
        "console.example": True,
        "Console.Example:8980": True,
        "attacker.example:8980": False,
        "127.0.0.1.attacker.example": False,
        "localhost.attacker.example": False,
        "x@attacker.example": False,
        "[::1": False,
        "": False,
    }.items():
        with case(host):
            assert answer(OPEN, host=host).status == (200 if is_ours else 421)


def test_pages_of_other_sites_get_nothing() -> None:
    for headers, status in (
        ({"origin": f"http://{HOST}"}, 200),
        ({"origin": "http://attacker.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"sec_fetch_site": "none"}, 200),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, 200),
    ):
        with case(headers):
            assert answer(OPEN, **headers).status == status


def test_what_changes_something_is_json_of_our_own_page() -> None:
    for headers, status in (
        ({}, 200),
        ({"content_type": "application/json; charset=utf-8"}, 200),
        ({"content_type": "text/plain"}, 403),
        ({"content_type": "application/x-www-form-urlencoded"}, 403),
        ({"x_kafkalite_console": ""}, 403),
        ({"origin": "http://attacker.example"}, 403),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, 403),
        ({"content_length": ""}, 413),
        ({"content_length": str(access.MOST_BODY_BYTES + 1)}, 413),
        ({"content_length": "-1"}, 413),
    ):
        with case(headers):
            assert answer(OPEN, {}, **headers).status == status
    assert answer(OPEN, {}, method="DELETE").status == 405
    assert answer(Access(read_only=True), {}).status == 403
    assert answer(Access(read_only=True)).status == 200


def test_a_login_is_needed_for_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "REFUSAL_DELAY_S", 0.0)
    closed = Access(login=Login({"ann": "secret"}))
    unknown = answer(closed)
    assert unknown.status == 401 and "Basic" in unknown.headers["www-authenticate"]
    assert answer(closed, authorization="Basic " + b64encode(b"ann:wrong").decode()).status == 401
    assert answer(closed, authorization=BASIC).status == 200
    assert answer(closed, {}, authorization=BASIC).status == 200
    assert answer(closed, {}, authorization=BASIC, origin="http://attacker.example").status == 403


def test_a_person_reads_why_a_request_is_refused() -> None:
    """JSON is for the scripts of the page; a browser that opens an address gets a sentence."""
    opened = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    unknown = answer(Access(login=Login({"ann": "secret"})), **opened)
    assert unknown.status == 401 and "Basic" in unknown.headers["www-authenticate"]
    assert unknown.headers["content-type"] == "text/plain; charset=utf-8"
    assert unknown.body == b"kafkalite console: it needs a login; reload the page, and give the name and the password\n"
    assert answer(OPEN, host="attacker.example", **opened).body.startswith(
        b"kafkalite console: 'attacker.example' is no"
    )
    assert "needs a login" in answer(Access(login=Login({"ann": "secret"})), accept="*/*").json["error"]


def test_every_answer_confines_the_page() -> None:
    for found in (answer(OPEN), answer(OPEN, host="attacker.example")):
        policy = found.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert found.headers["x-content-type-options"] == "nosniff" and found.headers["cache-control"] == "no-store"


def test_what_only_this_machine_reaches() -> None:
    assert [
        each
        for each in ("127.0.0.1", "127.1.2.3", "::1", "localhost", "0.0.0.0", "::", "", "a.example")
        if is_loopback(each)
    ] == [
        "127.0.0.1",
        "127.1.2.3",
        "::1",
        "localhost",
    ]
