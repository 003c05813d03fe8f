"""What a start asks of the disk for each log; a broker may have a hundred thousand of them."""

from __future__ import annotations

from collections import Counter

from kafkalite.storage.disk import OsDisk
from kafkalite.types import TopicPartition
from tests.unit.storage.logs import append, batch
from tests.unit.storage.stores import TOPIC_ID, die, opened

LOGS = 20

# Listed once to be opened, and once to be summarized: which is not done because the clock of these stores stands in the past.


class CountingDisk(OsDisk):
    """The machine's disk, which counts what is asked about the files of partitions."""

    def __init__(self):
        super().__init__()
        self.asked = Counter()

    def count(self, what, path):
        if "logs-" in path:
            self.asked[what] += 1

    def open(self, path, *, create=False):
        self.count("open", path)
        return super().open(path, create=create)

    def read(self, path):
        self.count("read", path)
        return super().read(path)

    def list(self, path):
        self.count("list", path)
        return super().list(path)

    def replace(self, path, content, *, durable=True, only_for_owner=False):
        self.count("replace", path)
        super().replace(path, content, durable=durable, only_for_owner=only_for_owner)

    def remove(self, path):
        self.count("remove", path)
        super().remove(path)

    def sync(self, path):
        self.count("sync", path)
        super().sync(path)


def store_with_logs(path, records):
    store = opened(path)
    for number in range(LOGS):
        log = store.create(TopicPartition("logs", number), TOPIC_ID)
        log.assign_epoch(3)
        for _ in range(records):
            append(log, batch(), epoch=3)
    while store.make_files():
        pass
    return store


def asked_at_start(path):
    """What each log costs at a start, and the start after it, whose broker was killed too."""
    costs = []
    for _ in range(2):
        disk = CountingDisk()
        store = opened(path, disk=disk)
        assert len(store.all_logs()) == LOGS
        costs.append({what: count / LOGS for what, count in disk.asked.items()})
        die(store)
    return costs


def test_a_start_after_a_kill_synced_the_epochs_of_logs_without_records(tmp_path):
    die(store_with_logs(tmp_path, 0))
    assert asked_at_start(tmp_path) == [{"list": 2, "read": 2}] * 2


def test_a_start_after_a_kill_made_indexes_again_in_which_nothing_was(tmp_path):
    die(store_with_logs(tmp_path, 2))
    assert asked_at_start(tmp_path) == [{"list": 2, "read": 2, "open": 2}] * 2
