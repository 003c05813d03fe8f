"""Records of transactions in the console, and records whose key or value is null or empty."""

from __future__ import annotations

import confluent_kafka
from selenium.webdriver.common.keys import Keys

from kafkalite.local.cluster import LocalCluster
from tests.system.console_screens import Screens


def look_at_transactions(screens: Screens, cluster: LocalCluster) -> None:
    """Records of an aborted transaction and of one that is open say so, in the list and each by itself."""

    def begin(name: str) -> confluent_kafka.Producer:
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name}
        producer = confluent_kafka.Producer(servers)
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("payments", name, partition=0)
        assert producer.flush(30) == 0
        return producer

    begin("given up").abort_transaction(30)
    begin("paid").commit_transaction(30)
    left_open = begin("not decided")
    screens.open("#/topics/payments/records", "payments")
    screens.has("3 records, of ")
    text = "e.querySelector('td:last-child .value').innerText, e.querySelector('.badge')?.innerText"
    read = f"return [...document.querySelectorAll('[data-record]')].map(e => [{text}])"
    shown = dict(screens.chrome.execute_script(read))
    assert shown == {"given up": "aborted", "paid": None, "not decided": "open"}
    screens.keep("marked")
    screens.follow("[data-record='0:0'] button")
    screens.has("Its transaction was aborted: consumers that read committed records do not get it.")
    screens.open("#/transactions", "Transactions")
    screens.has("not decided", "Ongoing", "CompleteAbort", "CompleteCommit")
    left_open.abort_transaction(30)
    screens.open("#/topics/payments/produce", "payments")
    assert screens.find("input[name=key_null]").is_selected()
    screens.find("input[name=key]").send_keys("k")
    assert not screens.find("input[name=key_null]").is_selected()
    screens.find("input[name=key]").send_keys(Keys.BACKSPACE)
    screens.find("input[name=value_null]").click()
    screens.click("Write the record")
    screens.has("Written: partition")
    (newest,) = screens.rows("topics/payments/records?rows=1")
    assert (newest["key"]["kind"], newest["key"]["bytes"], newest["value"]["kind"]) == ("text", 0, "null")
