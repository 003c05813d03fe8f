"""A commit log from which a service rebuilds its state: what is not in the log has not happened.

    python rebuild_state.py deposit ann 50
    python rebuild_state.py deposit bob -20
    python rebuild_state.py show                    # the accounts, as the log tells them

The log is a compacted topic: of each account the latest balance stays for ever, older ones go. A change is written first, acknowledged by
all replicas, and only then made in memory; a service that starts, after a crash or on another machine, reads the log to its end and
has the state of its predecessor. The transactional id fences that predecessor, should it still live: it can write nothing more.
"""

from __future__ import annotations

import argparse

from needs import cluster_at, make_missing

from kafkalite.client import NewTopic, SyncAdmin, SyncConsumer, SyncProducer, TopicPartition

TOPIC = "example-accounts"
LOG = TopicPartition(TOPIC, 0)


class Accounts:
    """Balances by name, kept in a topic of one partition; `with Accounts(...) as accounts`."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self.balances: dict[str, int] = {}
        self._producer = SyncProducer(
            bootstrap_servers=servers, transactional_id=TOPIC, key_serializer="str", value_serializer="json"
        )

    def __enter__(self) -> Accounts:
        with SyncAdmin(bootstrap_servers=self._servers) as admin:
            make_missing(admin, NewTopic(TOPIC, 1, topic_configs={"cleanup.policy": "compact"}))
        self._producer.connect()
        self._producer.init_transactions()  # from here on nobody else writes, so the end of the log stays where it is
        self._replay()
        return self

    def __exit__(self, *problem: object) -> None:
        self._producer.close()

    def _replay(self) -> None:
        with SyncConsumer(
            bootstrap_servers=self._servers,
            isolation_level="read_committed",
            key_deserializer="str",
            value_deserializer="json",
        ) as consumer:
            consumer.assign([LOG])
            consumer.seek_to_beginning(LOG)
            end = consumer.end_offsets([LOG])[LOG]
            while consumer.position(LOG) < end:
                for record in consumer.poll(timeout_ms=1000).get(LOG, []):
                    self._apply(record.key, record.value)

    def _apply(self, name: str, balance: int | None) -> None:
        """The only place where the state changes, now and when it is rebuilt. None, a tombstone, removes the account."""
        if balance is None:
            self.balances.pop(name, None)
        else:
            self.balances[name] = balance

    def _write(self, changes: dict[str, int | None]) -> None:
        """All of them or none."""
        with self._producer.transaction():
            for name, balance in changes.items():
                self._producer.send(TOPIC, balance, key=name, partition=0)
        for name, balance in changes.items():
            self._apply(name, balance)

    def deposit(self, name: str, amount: int) -> None:
        self._write({name: self.balances.get(name, 0) + amount})

    def transfer(self, giver: str, taker: str, amount: int) -> None:
        self._write({giver: self.balances[giver] - amount, taker: self.balances.get(taker, 0) + amount})

    def close_account(self, name: str) -> None:
        self._write({name: None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-server", default="localhost:9092")
    parser.add_argument("what", choices=("deposit", "show"))
    parser.add_argument("account", nargs="?")
    parser.add_argument("amount", nargs="?", type=int)
    given = parser.parse_args()
    with cluster_at(given.bootstrap_server), Accounts(given.bootstrap_server) as accounts:
        if given.what == "deposit":
            accounts.deposit(given.account, given.amount)
        for account, balance in sorted(accounts.balances.items()):
            print(account, balance)
