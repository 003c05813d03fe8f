"""The console in a real browser: every screen of a small cluster, with names and records that would run as code if they could."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import confluent_kafka
import msgpack
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from kafkalite.local.cluster import LocalCluster
from kafkalite.local.ports import is_free
from tests.system.browser import browser
from tests.system.console_screens import SECRET, Screens, console, serve_console
from tests.system.console_transactions import look_at_transactions
from tests.system.console_truth import a_killed_broker_is_not_up, what_is_lost_is_told

pytestmark = pytest.mark.system

SCRIPT = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
GROUP = f"readers {SCRIPT}"
SETTINGS = {"offsets.topic.num.partitions": "1", "log.retention.hours": "-1", "num.partitions": "2"}
WITH_RULES = {
    **SETTINGS,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
OPEN_WITHOUT_RULES = {
    **SETTINGS,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
RECORDS = 300
NOON_MS = 1_700_000_000_000


def write(cluster: LocalCluster) -> None:
    """Text, JSON, msgpack and what would like to be code; and a group that is behind."""
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(
            "orders", json.dumps({"number": number, "note": "ordinary"}), f"key-{number}", 0, timestamp=NOON_MS + number
        )
    producer.produce("orders", msgpack.packb({"packed": [1, 2]}), "packed", 1, timestamp=NOON_MS + RECORDS)
    producer.produce("orders", SCRIPT, SCRIPT, 1, timestamp=NOON_MS + RECORDS, headers=[("header", SCRIPT.encode())])
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP})
    try:
        consumer.commit(offsets=[confluent_kafka.TopicPartition("orders", 0, 100)], asynchronous=False)
    finally:
        consumer.close()


@pytest.mark.timeout(360)
def test_every_screen_of_the_console(tmp_path: Path) -> None:
    with (
        browser(tmp_path / "chromium") as chrome,
        LocalCluster(brokers=2, properties=WITH_RULES) as cluster,
    ):
        write(cluster)
        with console(cluster, tmp_path) as address:
            screens = Screens(chrome, address, tmp_path)
            look_at_the_cluster(screens)
            look_at_records(screens)
            write_and_search(screens, cluster)
            look_at_documents(screens, cluster)
            look_at_groups(screens)
            look_at_the_rest(screens)
            change_topics(screens)
            change_brokers(screens)
            change_access(screens)
            look_at_transactions(screens, cluster)
            on_a_phone_and_dark(screens)
            screens.page.assert_sound()
            load_again(screens)
            assert chrome.title != "taken"
        switch_between_clusters(chrome, cluster, tmp_path)
        the_demo_ends_with_its_console(cluster, tmp_path)
        with console(cluster, tmp_path, "--read-only") as address:
            screens = Screens(chrome, address, tmp_path)
            nothing_can_be_changed(screens, min(cluster.broker_ids))
            what_is_lost_is_told(screens, cluster)
            a_killed_broker_is_not_up(screens, cluster)


def test_records_of_any_time_are_shown_also_to_who_may_only_look(tmp_path: Path) -> None:
    """A producer slips to nanoseconds; the records around it are there as otherwise, and it is told with its number. Then there is a rule
    for the topic, which lets everybody read it and nobody change it.
    """
    odd = (NOON_MS * 1000, NOON_MS * 10**6, 2**63 - 1)
    with (
        browser(tmp_path / "chromium") as chrome,
        LocalCluster(brokers=1, properties={**OPEN_WITHOUT_RULES, "num.partitions": "1"}) as cluster,
    ):
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number, timestamp in enumerate((NOON_MS, *odd, NOON_MS + 1)):
            producer.produce("odd", f"record {number}", timestamp=timestamp)
            assert producer.flush(30) == 0
        with console(cluster, tmp_path) as address:
            screens = Screens(chrome, address, tmp_path)
            screens.open("#/topics/odd/records", "odd")
            screens.has("5 records", *(f"record {number}" for number in range(5)), *(f"{each} ms" for each in odd))
            screens.follow("[data-record='0:3'] button")
            screens.has(f"{2**63 - 1} ms UTC", "Produce it again")
            screens.page.assert_sound()
            changes_are_refused_with_the_reason(screens)


def changes_are_refused_with_the_reason(screens: Screens) -> None:
    """Who may see a topic and not alter it sees it, and why the brokers do not alter it."""
    screens.open("#/access", "Access")
    screens.act("add-acl", principal="*", name="odd")
    screens.click("Do it")
    screens.page.wait(lambda: "Remove …" in screens.page.texts("button"), "the rule")
    screens.open("#/topics/odd/records", "odd")
    screens.has("5 records", "record 0")
    screens.open("#/topics/odd", "odd")
    screens.has("Partitions", "Records")
    screens.open("#/topics/odd/change", "odd")
    for action, fields, told in (
        ("change-settings", {"set": "retention.ms=86400000"}, "settings of topic odd: Topic authorization failed."),
        ("add-partitions", {"total": "3"}, "adding partitions to odd: The topic authorization is failed."),
        ("purge-topic", {}, "settings of topic odd: Topic authorization failed."),
    ):
        screens.act(action, **fields)
        assert screens.page.texts(f"form[data-action={action}] [role=status] .notice.bad") == [told]
        assert not screens.find(f"form[data-action={action}] button.danger").is_enabled()
    screens.act("delete-topic")
    screens.confirm("delete-topic", "odd")
    refusal = "form[data-action=delete-topic] [role=status] .notice.bad"
    told = ["deleting topic odd: not authorized for the topic"]
    screens.page.wait(lambda: screens.page.texts(refusal) == told, "a refusal")
    screens.keep("refused")
    screens.open("#/topics/odd/produce", "odd")
    screens.find("textarea[name=value]").send_keys("not written")
    screens.click("Write the record")
    told = ["producing to odd-0: not authorized for the topic"]
    screens.page.wait(lambda: screens.page.texts(".notice.bad") == told, "a refusal")
    screens.open("#/topics/odd/records", "odd")
    screens.has("5 records, of 5 offsets")


def switch_between_clusters(chrome: Chrome, cluster: LocalCluster, folder: Path) -> None:
    """Each context has its screens at an address of its own; the one that nobody answers for says so, and the others are as always."""
    contexts = folder / "contexts.toml"
    with socket.socket() as held:  # nobody listens there, and nobody else takes it
        held.bind(("127.0.0.1", 0))
        away = f"127.0.0.1:{held.getsockname()[1]}"
        servers = {"one": cluster.bootstrap_servers, "two": cluster.bootstrap_servers, "away": away}
        lines = [f'[contexts.{name}]\nbootstrap.servers = "{each}"\n' for name, each in servers.items()]
        contexts.write_text('current-context = "one"\n' + "".join(lines))
        with serve_console(folder, contexts, "--all-contexts", "--read-only") as address:
            screens = Screens(chrome, address, folder)
            screens.has("2 of 2", "one ⚠", "read only")
            screens.open("#/topics/orders/records", "orders")
            screens.find("#cluster").send_keys(Keys.ENTER)
            screens.has(f"away {away} ⚠ no broker can be reached")
            screens.keep("clusters")
            screens.choose_cluster("two")
            screens.page.wait(
                lambda: screens.page.texts("h1") == ["Topics"], "the same kind of screen of another cluster"
            )
            screens.has("two ⚠", "orders", "read only")
            assert chrome.current_url == f"{address}clusters/two/#/topics" and "two" in chrome.title
            screens.choose_cluster("away")
            screens.has(f"away ({away}) is not connected: no broker can be reached", "Connection refused")
            screens.find("#cluster").send_keys(Keys.ENTER)
            screens.find("#cluster-list a").send_keys(Keys.ESCAPE)
            assert not screens.find("#clusters").get_attribute("open")
            assert chrome.switch_to.active_element.get_attribute("id") == "cluster"
            screens.choose_cluster("one")
            screens.has("orders", "1 to 3 of 3")


def the_demo_ends_with_its_console(cluster: LocalCluster, folder: Path) -> None:
    """As `./deploy/demo --console` does: the console is served until somebody interrupts it."""
    servers, connect = cluster.bootstrap_servers, cluster.zookeeper_connect
    program = "from pathlib import Path; from deploy.examples.flights.console_process import ConsoleProcess"
    program += (
        f"; shown = ConsoleProcess({servers!r}, {connect!r}, None, Path({str(folder)!r})); shown.wait(); shown.stop()"
    )
    # What is set for another cluster does not count.
    environment = {**os.environ, "KAFKALITE_SECURITY_PROTOCOL": "SSL"}
    command = [sys.executable, "-c", program]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
        # Whoever runs the tests in the background lets them ignore SIGINT, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout is not None
        found = re.match(r"watch it at (http://127.0.0.1:(\d+)/)", process.stdout.readline())
        assert found is not None, (folder / "console.log").read_text()
        assert process.stdout.readline().startswith(f"all of it is at {found[1]}")
        with urllib.request.urlopen(f"{found[1]}api/overview", timeout=60) as answer:
            assert json.load(answer)["counts"]["topics"] == 5
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0 and is_free(int(found[2]))
    finally:
        process.kill()
        process.wait()


def look_at_the_cluster(screens: Screens) -> None:
    screens.has("2 of 2", "✓ controller", "up controller", "as of ")
    screens.page.wait(lambda: len(screens.page.data(".plot")) == 4, "plots")
    screens.keep("overview")
    screens.find("body").send_keys(Keys.TAB)
    assert screens.chrome.switch_to.active_element.text == "Skip to the content"
    screens.chrome.switch_to.active_element.send_keys(Keys.ENTER)
    assert screens.chrome.switch_to.active_element.get_attribute("id") == "main"
    screens.open("#/topics", "Topics")
    screens.has("orders", "1 to 1 of 1")
    screens.find("input[name=internal]").click()
    screens.has("__consumer_offsets", "1 to 2 of 2")
    screens.find("input[name=filter]").send_keys("ORD")
    screens.has("1 to 1 of 1")
    screens.keep("topics")
    screens.follow("main th a")
    screens.has("Partitions", "Settings")
    screens.find("input[name=setting]").send_keys("retention.ms")
    screens.has("retention.ms", "default")
    screens.keep("topic")


def look_at_records(screens: Screens) -> None:
    screens.open("#/topics/orders/records", "orders")
    screens.has("50 records", SCRIPT, '"packed"')
    screens.follow("[data-record='1:1'] button")
    screens.has("Header header", "Produce it again", "Download")
    screens.keep("records")
    screens.click("Older ›")
    screens.page.wait(
        lambda: len(screens.page.texts("[data-record]")) == 50 and SCRIPT not in screens.text(), "older ones"
    )
    Select(screens.find("select[name=start]")).select_by_value("offset")
    screens.find("input[name=at]").send_keys("7")
    screens.find("input[name=partitions]").send_keys("0")
    screens.click("Read")
    screens.page.wait(lambda: screens.page.texts("[data-record] th")[:1] == ["0:7"], "from an offset on")


def look_at_documents(screens: Screens, cluster: LocalCluster) -> None:
    """JSON folds, by keys too, in colours that can be read; what looks like it and is none has a reason."""
    document = json.dumps({"note": SCRIPT, SCRIPT: [2**64, {"inner": None}], "many": list(range(250))})
    long = json.dumps([{"number": number, "note": "x" * 20} for number in range(20_000)])
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "message.max.bytes": 2_000_000}
    )
    for value in (document, '{"broken": ', long):
        producer.produce("documents", value, partition=0)
    assert producer.flush(30) == 0
    screens.open("#/topics/documents/records", "documents")
    screens.follow("[data-record='0:0'] button")
    screens.has(str(2**64), '"inner"', "250 items")
    assert json.dumps(SCRIPT) in screens.page.texts(".json .json-key")
    many = next(each for each in screens.chrome.find_elements(By.TAG_NAME, "summary") if "250 items" in each.text)
    many.send_keys(Keys.ENTER)
    screens.click("100 more of 150")
    screens.has("50 more of 50", "199,")
    screens.keep("document")
    for theme in ("dark", "light"):
        screens.prefer(theme)
        assert all(contrast >= 4.5 for contrast in screens.contrasts(".json", ".json span")), theme
    screens.click("Fold")
    screens.page.wait(lambda: str(2**64) not in screens.page.text(".json"), "folded")
    screens.click("Unfold")
    screens.has('"inner"', "100 more of 150")
    screens.follow("[data-record='0:1'] button")
    screens.has("Shown as text because it is not valid as JSON (line 1, column 12: Expecting value).")
    screens.follow("[data-record='0:2'] button")
    screens.has("100 more of 19,900")
    assert screens.chrome.execute_script("return document.querySelectorAll('*').length") < 2_000


def write_and_search(screens: Screens, cluster: LocalCluster) -> None:
    screens.find("input[name=text]").send_keys("key-25")
    screens.click("Search")
    screens.has("11 found in 293 records", "that is all")
    screens.keep("search")
    screens.click("Follow live")
    screens.has("following: 0 records")
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce("orders", "came while somebody looked", partition=0)
    assert producer.flush(30) == 0
    screens.has("following: 1 record", "came while somebody looked")
    screens.click("Pause")
    producer.produce("orders", "came while it was paused", partition=0)
    assert producer.flush(30) == 0
    screens.has("following: 2 records, 1 of them waiting")
    assert "came while it was paused" not in screens.text()
    screens.click("Go on")
    screens.has("came while it was paused")
    screens.open("#/topics/orders/produce?from=1:1", "orders")
    screens.has("A copy of 1:1")
    assert screens.find("textarea[name=value]").get_attribute("value") == SCRIPT
    screens.lose_answers(3)
    screens.click("Write the record")
    screens.has("Written: partition")  # once, as the lag of the group shows
    screens.lose_answers(100)
    screens.click("Write the record")
    screens.has("it is not known whether this was done")
    screens.lose_answers(0)
    screens.keep("produce")


def load_again(screens: Screens) -> None:
    """A page whose scripts were not all loaded is loaded again by itself, and says so when that does not help."""
    screens.break_loading("times.js")
    screens.chrome.refresh()
    loads = "return sessionStorage.getItem('kafkalite-loads')"
    screens.page.wait(lambda: screens.chrome.execute_script(loads) is not None, "a broken load")
    screens.break_loading()
    screens.open("#/topics", "Topics")
    screens.page.wait(lambda: screens.chrome.execute_script(loads) is None, "a whole load")
    screens.break_loading("times.js")
    screens.chrome.execute_script("sessionStorage.setItem('kafkalite-loads', '5')")
    screens.chrome.refresh()
    screens.has("the scripts of this page could not be loaded")
    screens.break_loading()
    screens.chrome.refresh()


def look_at_groups(screens: Screens) -> None:
    screens.open("#/groups", "Groups")
    screens.has(GROUP, "Empty")
    screens.keep("groups")
    screens.follow("main th a")
    screens.has("Nobody is in it.", "Reset offsets", "204")
    screens.click("Preview")
    screens.has("Nothing has changed yet", "-100", "kafkalite group reset-offsets", "--to-earliest --execute")
    screens.click("Do it")
    screens.has("Done.", "304")
    screens.keep("group")


def change_topics(screens: Screens) -> None:
    """Each action is previewed with its command line; what is lost needs its name to be typed."""
    screens.open("#/topics", "Topics")
    screens.act("create-topic", topic="made-here", partitions="1")
    screens.has("kafkalite topic create made-here --partitions 1")
    screens.click("Do it")
    screens.page.wait(lambda: screens.page.texts("h1") == ["made-here"], "the new topic")
    screens.open("#/topics/made-here/change", "made-here")
    screens.act("change-settings", set="retention.ms=86400000")
    screens.has("kafkalite config alter --topic made-here --set retention.ms=86400000")
    screens.keep("change")
    screens.click("Do it")
    screens.has("Done.")
    screens.act("add-partitions", total="3")
    screens.click("Do it")
    screens.page.wait(lambda: screens.text().count("Done.") == 2, "partitions were added")
    screens.open("#/topics/made-here", "made-here")
    screens.page.wait(lambda: len(screens.page.texts("main table tbody tr")) >= 3, "three partitions")
    screens.open("#/topics/orders/change", "orders")
    screens.act("purge-topic", offsets="0:100")
    screens.has("100 records are lost", "Type orders to confirm")
    screens.confirm("purge-topic", "orders")
    screens.open("#/topics/orders/groups", "orders")
    screens.has(GROUP)
    screens.open("#/topics/made-here/change", "made-here")
    screens.act("delete-topic")
    screens.has("kafkalite topic delete made-here --yes")
    screens.confirm("delete-topic", "made-here")
    screens.page.wait(lambda: screens.page.texts("h1") == ["Topics"], "the list of topics")
    screens.page.wait(lambda: "made-here" not in screens.text(), "made-here is gone")
    screens.open("#/groups", "Groups")
    screens.follow("main th a")
    screens.has("Reset offsets")
    screens.act("delete-group")
    screens.confirm("delete-group", GROUP)
    screens.page.wait(lambda: screens.page.texts("h1") == ["Groups"], "the list of groups")
    screens.has("no groups")


def change_brokers(screens: Screens) -> None:
    screens.open("#/brokers", "Brokers")
    screens.act("change-settings", set="log.cleaner.threads=2")
    screens.has("kafkalite config alter --broker-defaults --set log.cleaner.threads=2")
    screens.click("Do it")
    screens.has("Done.")
    leader = next(row for row in screens.rows("brokers/1/partitions") if row["topic"] == "__consumer_offsets")["leader"]
    screens.open(f"#/brokers/{leader}", f"Broker {leader}")
    screens.act("move-leaders")
    screens.has("kafkalite leader elect __consumer_offsets-0")
    screens.click("Do it")
    screens.has("Done.")
    found = "brokers/1/partitions?filter=__consumer_offsets"
    screens.page.wait(lambda: [row["leader"] for row in screens.rows(found)] != [leader], "another leader")


def change_access(screens: Screens) -> None:
    screens.open("#/access", "Access")
    screens.act("add-acl", principal="ann", name="orders")
    screens.has("kafkalite acl add User:ann Read --topic orders")
    screens.click("Do it")
    screens.page.wait(lambda: "Remove …" in screens.page.texts("button"), "the rule")
    screens.click("Remove …")
    screens.act("remove-acl")
    screens.has("kafkalite acl remove --topic orders --principal User:ann --operation Read")
    screens.click("Do it")
    screens.page.wait(lambda: "Remove …" not in screens.page.texts("button"), "the rule is gone")
    screens.act("set-password", user="ann", password="correct horse")
    screens.has("kafka-configs is among the tools that `kafkalite kafka-tools FOLDER` writes.")
    assert "correct horse" not in screens.text()
    screens.click("Do it")
    screens.has("SCRAM-SHA-512, 4096 iterations")
    screens.keep("access")
    screens.act("delete-user", user="ann")
    screens.confirm("delete-user", "ann")
    screens.page.wait(lambda: "4096 iterations" not in screens.text(), "no credential")
    screens.open("#/transactions", "Transactions")
    screens.has("no transactions")
    screens.click("Find hanging transactions")
    screens.has("None in ")
    screens.keep("transactions")


def nothing_can_be_changed(screens: Screens, broker: int) -> None:
    screens.has("read only")
    for place, heading, shown in (
        ("#/topics", "Topics", "orders"),
        ("#/topics/orders", "orders", "Partitions"),
        ("#/groups", "Groups", "no groups"),
        ("#/brokers", "Brokers", "None."),
        (f"#/brokers/{broker}", f"Broker {broker}", "__consumer_offsets"),
        ("#/access", "Access", "Quotas"),
        ("#/transactions", "Transactions", "given up"),
    ):
        screens.open(place, heading)
        screens.has(shown)
        assert screens.page.data("[data-action]") == [] and "Change" not in screens.page.texts("a")
        assert not [each for each in screens.page.texts("button") if each.endswith("…")], place


def look_at_the_rest(screens: Screens) -> None:
    screens.open("#/brokers", "Brokers")
    screens.has("up", "None.")
    screens.keep("brokers")
    screens.follow("main th a")
    screens.has("the broker's file", "zookeeper.connect")
    screens.keep("broker")
    screens.open("#/zookeeper/brokers/topics", "ZooKeeper")
    screens.has("The topics.", "orders", "A topic: the brokers that hold")
    screens.keep("zookeeper")
    screens.open("#/timeline", "Timeline")
    screens.page.wait(lambda: screens.page.texts(".faint") != [], "the timeline")
    screens.keep("timeline")
    screens.open("#/access", "Access")
    screens.has("ACLs", "Quotas")
    screens.open("#/nights", "Spark jobs")
    screens.has("--nights")
    assert SECRET not in screens.chrome.page_source


def on_a_phone_and_dark(screens: Screens) -> None:
    screens.open("#/", "Overview")
    for _ in range(2):
        screens.find("#theme").click()
    assert screens.find("html").get_attribute("data-theme") == "dark"
    screens.find("#zone").click()
    screens.page.wait(lambda: bool(re.search(r"as of \d\d:\d\d:\d\d UTC[+−]\d\d:\d\d", screens.text())), "local time")
    screens.chrome.set_window_size(500, 900)  # no browser window is narrower; phones are
    screens.chrome.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 375, "height": 812, "deviceScaleFactor": 1, "mobile": True}
    )
    for place, heading, name in (("#/", "Overview", "phone"), ("#/topics/orders/records", "orders", "phone-records")):
        screens.open(place, heading)
        screens.page.wait(lambda: screens.page.texts("tbody tr") != [], "rows")
        screens.keep(name)
        width = screens.chrome.execute_script("return document.documentElement.scrollWidth")
        assert width <= 375, "nothing but tables is wider than the screen"
        for control in screens.chrome.find_elements(By.CSS_SELECTOR, "button, input, select"):
            assert not control.is_displayed() or control.accessible_name, control.get_attribute("outerHTML")
