"""Every screen and every action of the console in a browser, as each role: the tables of `console_roles` against the page.

A screen or an action that the page has and the tables have not fails the test, and so does one that the tables have and the page has not.
"""

from __future__ import annotations

import re
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import quote

import pytest
from selenium.webdriver import Chrome
from starlette.routing import Route

from kafkalite.clock import SystemClock
from kafkalite.console.access import Access
from kafkalite.console.actions.table import ACTIONS as SERVED
from kafkalite.console.app import FILES, Console, Ports
from tests.case import case
from tests.system.browser import StatusPage, browser
from tests.system.console_roles import ACTIONS, PREVIEW, ROLES, SCREENS, Action, May, Role, Screen
from tests.system.console_screens import serve_console
from tests.system.console_world import ADMIN, LOOKER, UNAUTHORIZED, World, run_world

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

OFFERS: Final = ("Produce", "Change", "Produce it again", "Preview", "Do it")
"""Texts of buttons and links by which something is changed."""
PASSWORDS: Final = {"ann": "correct horse", "bob": "battery: staple"}
READS_ONLY: Final = [403, "this console only reads (--read-only)"]
PATHS: Final = {"produce": "topics/orders/produce", "reset-offsets": "group/reset"}
"""Where actions are sent that have no plan of their own."""

_OPEN: Final = """const [place, done] = arguments;
    addEventListener("hashchange", () => setTimeout(done), { once: true });
    location.hash = place;"""
_PRESS: Final = """const [name, fields] = arguments;
    const form = document.querySelector(`form[data-action="${name}"]`);
    if (!form) return false;
    for (let each = form.closest("details"); each; each = each.parentElement.closest("details")) each.open = true;
    for (const [field, value] of Object.entries(fields)) {
      form.elements[field].value = value;
      for (const event of ["input", "change"]) form.elements[field].dispatchEvent(new Event(event, { bubbles: true }));
    }
    form.querySelector("button:not([type])").click();
    return true;"""
_CONFIRM: Final = """const [name, word] = arguments;
    const form = document.querySelector(`form[data-action="${name}"]`);
    const button = form.querySelector("button.danger");
    if (word) {
      if (!button.disabled) return "it asks for no confirmation";
      form.elements.confirm.value = word;
      form.elements.confirm.dispatchEvent(new Event("input", { bubbles: true }));
    }
    if (button.disabled) return "it cannot be done";
    button.click();
    return "";"""
_TOLD: Final = """const form = document.querySelector(`form[data-action="${arguments[0]}"]`);
    const told = form?.querySelector("[role=status]") ?? form?.nextElementSibling;
    return { text: told?.innerText ?? "", refusal: told?.querySelector(".notice.bad")?.innerText ?? "" };"""
_ROW: Final = """const row = [...document.querySelectorAll("main tr")].find((each) => each.innerText.includes(arguments[0]));
    row?.querySelector("button").click();
    return Boolean(row);"""
_CLICK: Final = """const found = [...document.querySelectorAll("button")].find((each) => each.innerText === arguments[0]);
    found?.click();
    return Boolean(found);"""
_KNOWN: Final = """const done = arguments[0];
    fetch(`${location.origin}${location.pathname}api/topics/orders?without_settings=1`)
      .then((response) => response.json())
      .then(({ partition_list: [{ leader, replicas }] }) => done([leader, ...replicas]))
      .catch(() => done(null))"""
_FORMS: Final = 'return [...document.querySelectorAll("form[data-action]")].map((each) => each.dataset.action)'
_ROUTES: Final = """const done = arguments[0];
    import("./app.js").then(({ ROUTES }) => done(ROUTES.map(([pattern]) => pattern.source)))"""
_SEND: Final = """const [path, done] = arguments;
    const headers = { "Content-Type": "application/json", "X-Kafkalite-Console": "1" };
    fetch(`${location.origin}${location.pathname}api/${path}`, { method: "POST", headers, body: '{"execute": true}' })
      .then((response) => response.json().then(({ error }) => done([response.status, error])))
      .catch(() => done(null))"""

THEFT: Final = '{"topic": "stolen", "partitions": "1", "execute": true}'
_OWN: Final = """const [body, done] = arguments;
    const headers = { "Content-Type": "application/json", "X-Kafkalite-Console": "1" };
    fetch(`${location.origin}/api/actions/create-topic`, { method: "POST", headers, body }).then(({ status }) => done(status))"""
_POST_FORM: Final = """const [target, body] = arguments;
    const form = document.createElement("form");
    Object.assign(form, { action: `${target}api/actions/create-topic`, method: "post", enctype: "text/plain" });
    const field = document.createElement("input");
    [field.name, field.value] = [body.slice(0, 10), body.slice(10)];
    form.append(field);
    document.body.append(form);
    form.submit();"""
_ATTACK: Final = """const [target, body, done] = arguments;
    const post = (more) => fetch(`${target}api/actions/create-topic`, { method: "POST", credentials: "include", body, ...more });
    const json = { "Content-Type": "application/json", "X-Kafkalite-Console": "1" };
    const load = (tag, source) => new Promise((loaded, failed) => {
      const made = document.createElement(tag);
      Object.assign(made, { onload: loaded, onerror: failed, src: target + source });
      document.body.append(made);
    });
    const stream = () => new Promise((opened, failed) => {
      const events = new EventSource(`${target}api/topics/orders/follow`, { withCredentials: true });
      Object.assign(events, { onopen: opened, onerror: () => { events.close(); failed(); } });
    });
    const tries = {
      read: () => fetch(`${target}api/topics`, { credentials: "include" }),
      "read without CORS": () => fetch(`${target}api/topics`, { mode: "no-cors", credentials: "include" }),
      "change as text": () => post({ mode: "no-cors", headers: { "Content-Type": "text/plain" } }),
      "change as JSON": () => post({ headers: json }),
      "change without CORS": () => post({ mode: "no-cors" }),
      picture: () => load("img", "icon.svg"),
      script: () => load("script", "app.js"),
      stream,
    };
    const told = {};
    const note = ([name, call]) => call().then(() => { told[name] = "worked"; }, () => { told[name] = "refused"; });
    Promise.all(Object.entries(tries).map(note)).then(() => done(told));"""


class Visitor:
    """A person of one role at the console."""

    def __init__(self, chrome: Chrome, address: str, role: Role, world: World) -> None:
        self.role, self.chrome, self.world = role, chrome, world
        self.address = _with_login(address, role.name, PASSWORDS[role.name]) if role.has_login else address
        self._visits = 0

    def visit(self) -> None:
        """Load the console, with the login in its address where it wants one."""
        self.page = StatusPage(self.chrome, self.address)

    def open(self, screen: Screen, of: str | None = None) -> None:
        """Open a screen; a new one each time, also of the same address."""
        self._visits += 1
        place = screen.place.format(of=of or screen.of)
        self.chrome.execute_async_script(_OPEN, f"{place}?{self._visits}")

    def see(self, *texts: str) -> None:
        """Wait for texts on the page."""
        self.page.wait(lambda: not self.lacks(*texts), f"{self.role.name}: {texts}")

    def lacks(self, *texts: str) -> list[str]:
        shown = self.page.text("body")
        return [each for each in texts if each not in shown]

    def assert_sound(self) -> None:
        """The page was not loaded again, and the browser complained about no more than refusals."""
        assert self.chrome.execute_script("return performance.timeOrigin") == self.page.opened
        told = [each["message"] for each in self.chrome.get_log("browser") if each["level"] == "SEVERE"]  # type: ignore[no-untyped-call]
        assert [each for each in told if "Failed to load resource" not in each and "net::ERR_" not in each] == []

    def check_screen(self, screen: Screen) -> None:
        """Open a screen and hold it to the table."""
        screen.prepare(self.world, self.world.names(self.role.name))
        self.open(screen)
        self.see(*screen.texts(self.role))
        assert self.page.texts("h1") == [screen.heading]
        if self.role.user == UNAUTHORIZED:
            assert self.lacks(*screen.hides) == list(screen.hides)

    def forms(self) -> list[str]:
        found: list[str] = self.chrome.execute_script(_FORMS)
        return found

    def try_action(self, action: Action) -> None:
        """Do an action as far as the role may; what it changes has changed only then."""
        names = self.world.names(self.role.name)
        action.prepare(self.world, names)
        self._wait_known()
        before = action.changes(self.world, names)
        refused = {LOOKER: action.looker, UNAUTHORIZED: action.unauthorized}.get(self.role.user)
        self._open_form(action, names)
        if self.role.user == UNAUTHORIZED and refused is None:
            assert action.name not in self.forms()
            return
        fields = {name: value.format_map(names) for name, value in action.fields.items()}
        self.page.wait(lambda: bool(self.chrome.execute_script(_PRESS, action.name, fields)), f"form {action.name}")
        if action.plan:
            self._wait_told(
                action, (refused.why if refused and refused.at == PREVIEW else action.plan).format_map(names)
            )
            assert action.changes(self.world, names) == before, "a preview changes nothing"
        if refused is not None and refused.at == PREVIEW:
            assert self.chrome.execute_script(_CONFIRM, action.name, "") == "it cannot be done"
            return
        if action.plan:
            assert self.chrome.execute_script(_CONFIRM, action.name, action.confirm.format_map(names)) == ""
        if refused is not None:
            self._wait_told(action, refused.why.format_map(names))
            assert action.changes(self.world, names) == before
            return
        if action.leads_to:
            heading = action.leads_to.format_map(names)
            self.page.wait(lambda: self.page.texts("h1") == [heading], f"the screen {heading}")
        else:
            self._wait_told(action, action.told)
        self.page.wait(lambda: action.changes(self.world, names) != before, "what it changes")

    def _wait_known(self) -> None:
        """Wait until the console has seen who leads `orders`, and who is preferred."""
        (partition,) = self.world.admin.describe_topics(["orders"])[0].partitions
        known = [partition.leader, *partition.replicas]
        if self.role.user != UNAUTHORIZED:
            self.page.wait(lambda: self.chrome.execute_async_script(_KNOWN) == known, "the leader of orders")

    def _open_form(self, action: Action, names: Mapping[str, str]) -> None:
        (screen,) = [each for each in SCREENS if each.title == action.screen]
        self.open(screen, None if action.of == "orders" else action.of.format_map(names))
        if action.name == "abort-transaction":
            self.chrome.execute_script("document.querySelector('[name=minutes]').value = '0'")
            self.page.wait(lambda: bool(self.chrome.execute_script(_CLICK, "Find hanging transactions")), "a search")
        if action.row and self.role.user != UNAUTHORIZED:
            row = action.row.format_map(names)
            self.page.wait(lambda: bool(self.chrome.execute_script(_ROW, row)), row)

    def _wait_told(self, action: Action, text: str) -> None:
        def is_told() -> bool:
            told: dict[str, str] = self.chrome.execute_script(_TOLD, action.name)
            return text in told["text"]

        self.page.wait(is_told, f"{self.role.name}, {action.name}: {text}")


def _with_login(address: str, name: str, password: str) -> str:
    return address.replace("//", f"//{quote(name)}:{quote(password)}@", 1)


@contextmanager
def page_of_somebody_else() -> Iterator[int]:
    """Serve an empty page; its port."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>somebody else</title>")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            serving.join()


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture(scope="module")
def world(chrome: Chrome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with run_world(tmp_path_factory.mktemp("world"), [each.name for each in ROLES]) as found:
        yield found


@pytest.fixture(scope="module")
def addresses(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The address of each role's console, by the role's name."""
    users = tmp_path_factory.mktemp("users") / "users"
    users.touch(0o600)
    users.write_text("".join(f"{name}:{password}\n" for name, password in PASSWORDS.items()))
    options = {
        "here": ("--all-contexts",),
        "ann": ("--context", ADMIN, "--users-file", str(users)),
        "reads": ("--context", ADMIN, "--read-only"),
        "bob": ("--context", ADMIN, "--users-file", str(users), "--read-only"),
    }
    with ExitStack() as stack:
        found = {
            name: stack.enter_context(serve_console(tmp_path_factory.mktemp(name), world.contexts, *given))
            for name, given in options.items()
        }
        all_of_them = found["here"]
        yield {
            **found,
            **{
                name: f"{all_of_them}clusters/{user}/"
                for name, user in (("here", ADMIN), ("looks", LOOKER), ("nobody", UNAUTHORIZED))
            },
        }


@pytest.fixture
def visitors(chrome: Chrome, world: World, addresses: dict[str, str]) -> dict[str, Visitor]:
    """A person of each role, by the role's name."""
    return {each.name: Visitor(chrome, addresses[each.name], each, world) for each in ROLES}


def by_role(*roles: Role) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("role", roles, ids=[each.what for each in roles])


def _routes() -> list[Route]:
    """Return what a console serves."""
    ports = Ports(None, None, None, None, None, None, SystemClock())  # type: ignore[arg-type]
    return [each for each in Console(ports, Access(), "").site.routes if isinstance(each, Route)]


def test_the_tables_name_every_screen_and_action(visitors: dict[str, Visitor]) -> None:
    """Compared with what the page and the server declare; and each form is on the screens that the table says, and on no other."""
    here = visitors["here"]
    here.visit()
    routes = here.chrome.execute_async_script(_ROUTES)
    assert routes == [each.route for each in SCREENS]
    scripts = "".join(file.read().decode() for path, file in FILES.items() if path.endswith(".js"))
    declared = re.findall(r'action\(life, \{\s*name: "([a-z-]+)"', scripts) + re.findall(
        r'"data-action": "([a-z-]+)"', scripts
    )
    assert Counter(declared) == Counter(each.name for each in ACTIONS)
    assert {each.name for each in ACTIONS} == {*SERVED, *PATHS}
    posts = {route.path for route in _routes() if "POST" in (route.methods or ())}
    assert posts == {"/api/topics/{topic}/produce", "/api/group/reset", "/api/actions/{action}"}
    for screen in SCREENS:
        with case(screen.title):
            here.check_screen(screen)
            on_screen = sorted(each.name for each in ACTIONS if each.screen == screen.title and not each.row)
            here.page.wait(lambda: sorted(here.forms()) == on_screen, f"{on_screen}")  # noqa: B023


@by_role(*ROLES)
def test_screens(role: Role, visitors: dict[str, Visitor]) -> None:
    visitor = visitors[role.name]
    visitor.visit()
    for screen in SCREENS:
        with case(screen.title):
            visitor.check_screen(screen)
    visitor.assert_sound()


@by_role(*(each for each in ROLES if each.may is not May.READ))
def test_actions(role: Role, visitors: dict[str, Visitor]) -> None:
    visitor = visitors[role.name]
    visitor.visit()
    for action in ACTIONS:
        with case((action.screen, action.name)):
            visitor.try_action(action)
    visitor.assert_sound()


@by_role(*(each for each in ROLES if each.may is May.READ))
def test_actions_of_a_console_that_only_reads(role: Role, visitors: dict[str, Visitor]) -> None:
    """No screen has a form or leads to one, and what is sent without a form is refused."""
    visitor = visitors[role.name]
    visitor.visit()
    for screen in SCREENS:
        with case(screen.title):
            visitor.check_screen(screen)
            assert visitor.forms() == []
            offers = [each for each in visitor.page.texts("button, a") if each.endswith("…") or each in OFFERS]
            assert offers == []
    for name in dict.fromkeys(each.name for each in ACTIONS):
        with case(name):
            path = PATHS.get(name, f"actions/{name}")
            visitor.page.wait(
                lambda: visitor.chrome.execute_async_script(_SEND, path) == READS_ONLY,  # noqa: B023
                f"{READS_ONLY} for {name}",
            )


def test_login(visitors: dict[str, Visitor], addresses: dict[str, str]) -> None:
    """Without a login, and with a wrong one, nothing of the console is shown; with the right one all of it, also what comes live."""
    ann = visitors["ann"]
    elsewhere = addresses["ann"].replace("127.0.0.1", "localhost")  # whose logins the browser remembers apart
    for address in (
        elsewhere,
        _with_login(elsewhere, "ann", "wrong"),
        _with_login(elsewhere, "nobody", PASSWORDS["ann"]),
    ):
        ann.chrome.get(address)
        assert ann.chrome.title == "" and ann.chrome.execute_script("return document.body.innerText") == ""
    told = urllib.request.Request(addresses["ann"], headers={"Accept": "text/html"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(told, timeout=60)
    with refused.value as response:
        assert (response.status, b"it needs a login" in response.read()) == (401, True)
    ann.visit()
    ann.see("2 of 2")
    ann.address = addresses["ann"]  # the browser remembers the login
    ann.visit()
    (records,) = [each for each in SCREENS if each.title == "Records"]
    ann.check_screen(records)
    ann.chrome.execute_script("document.querySelector('[name=text]').value = 'an order'")
    ann.page.wait(lambda: bool(ann.chrome.execute_script(_CLICK, "Search")), "Search")
    ann.see("1 found in", "that is all")
    ann.chrome.execute_script(_CLICK, "Follow live")
    ann.see("following: 0 records")
    ann.assert_sound()


def test_a_page_of_another_origin_cannot_use_the_login(visitors: dict[str, Visitor], addresses: dict[str, str]) -> None:
    """Neither one of the same host and another port nor one of another host; the console answers its own page alone."""
    ann = visitors["ann"]
    target = addresses["ann"]
    with page_of_somebody_else() as port:
        for host in ("127.0.0.1", "localhost"):
            with case(host):
                ann.visit()
                ann.see("2 of 2")
                ann.chrome.get(f"http://{host}:{port}/")
                told = ann.chrome.execute_async_script(_ATTACK, target, THEFT)
                assert told == dict.fromkeys(told, "refused") and len(told) == 8
                ann.chrome.execute_script(_POST_FORM, target, THEFT)
                ann.page.wait(lambda: "a page of another site asks" in ann.page.text("body"), "a refusal of the form")
                ann.chrome.get(f"http://{host}:{port}/")
                ann.chrome.execute_script("location = arguments[0]", target)
                ann.see("2 of 2")  # a link leads to the console, where the browser gives the login
    assert "stolen" not in ann.world.admin.list_topics()
    assert ann.chrome.execute_async_script(_OWN, THEFT) == 200, "as a request of its own page it is one that works"
    assert "stolen" in ann.world.admin.list_topics()
