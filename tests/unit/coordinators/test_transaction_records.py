"""Keys and values of `__transaction_state`, byte for byte as Apache Kafka 3.9.1 wrote them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.coordinators.contract import LogRecord, Now
from kafkalite.coordinators.transaction.machine import TransactionMachine
from kafkalite.coordinators.transaction.requests import WriteMarkers
from kafkalite.coordinators.transaction.settings import TransactionSettings
from kafkalite.coordinators.transaction.transaction_record import (
    StoredTransaction,
    TransactionState,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

KEY = "00000006676f6c64656e"
HEAD = "00000000000000000000"
START = "000001a20305badd"
INVOLVED = (
    "00000003000174000000020000000100000000000175000000010000000300125f5f636f6e73756d65725f6f66667365747300000001"
    "00000003"
)
EMPTY = HEAD + "00000000ea6000ffffffff000001a20305ba61ffffffffffffffff"
ONGOING = HEAD + "00000000ea6001" + INVOLVED + "000001a20305bb08" + START
PREPARE_COMMIT = HEAD + "00000000ea6002" + INVOLVED + "000001a20305bb1c" + START
COMPLETE_COMMIT = HEAD + "00000000ea600400000000000001a20305bb26" + START
FENCED = HEAD + "00010000ea6003000000010001740000000100000002000001a20305bf38000001a20305bf2c"
ABORTED = HEAD + "00010000ea600500000000000001a20305bf3e000001a20305bf2c"
NEXT = HEAD + "00020000753000ffffffff000001a20305bf74ffffffffffffffff"
START_MS = 0x1A20305BADD
PARTITIONS = {"t": frozenset({0, 1}), "u": frozenset({3}), "__consumer_offsets": frozenset({3})}
S = TransactionState
STORED = {
    EMPTY: StoredTransaction(0, 0, 60_000, S.EMPTY, {}, 0x1A20305BA61, -1),
    ONGOING: StoredTransaction(0, 0, 60_000, S.ONGOING, PARTITIONS, 0x1A20305BB08, START_MS),
    PREPARE_COMMIT: StoredTransaction(0, 0, 60_000, S.PREPARE_COMMIT, PARTITIONS, 0x1A20305BB1C, START_MS),
    COMPLETE_COMMIT: StoredTransaction(0, 0, 60_000, S.COMPLETE_COMMIT, {}, 0x1A20305BB26, START_MS),
    FENCED: StoredTransaction(0, 1, 60_000, S.PREPARE_ABORT, {"t": frozenset({2})}, 0x1A20305BF38, 0x1A20305BF2C),
    ABORTED: StoredTransaction(0, 1, 60_000, S.COMPLETE_ABORT, {}, 0x1A20305BF3E, 0x1A20305BF2C),
    NEXT: StoredTransaction(0, 2, 30_000, S.EMPTY, {}, 0x1A20305BF74, -1),
}


def test_a_key_is_written_as_kafka_writes_it() -> None:
    assert encode_key("golden").hex() == KEY and decode_key(bytes.fromhex(KEY)) == "golden"


@pytest.mark.parametrize("value", STORED)
def test_a_value_is_written_as_kafka_writes_it(value: str) -> None:
    stored = STORED[value]
    assert decode_value(bytes.fromhex(value)) == stored
    # Kafka keeps partitions in a set of no order: here it wrote 1 before 0.
    ours = encode_value(stored).hex()
    assert ours.replace("0000000000000001", "x") == value.replace("0000000100000000", "x") or ours == value


def test_a_machine_goes_on_from_a_log_that_kafka_wrote() -> None:
    machine = TransactionMachine(TransactionSettings())
    for offset, value in enumerate([EMPTY, ONGOING, PREPARE_COMMIT]):
        machine.apply(LogRecord(offset, bytes.fromhex(KEY), bytes.fromhex(value)))
    assert machine.on_loaded(Now(0, 0)).sends == [WriteMarkers("golden", 0, 0, True, PARTITIONS)]


def test_the_flexible_version_is_read() -> None:
    """As Apache Kafka 4 writes it, with a tagged field."""
    flexible = (
        "0001" + "0000000000000007" + "0002" + "0000ea60" + "01" + "02" + "0274" + "02" + "00000005" + "00"
        "000001a20305bb08" + START + "01" + "00" + "08" + "0000000000000006"
    )
    expected = StoredTransaction(7, 2, 60_000, S.ONGOING, {"t": frozenset({5})}, 0x1A20305BB08, START_MS)
    assert decode_value(bytes.fromhex(flexible)) == expected


@pytest.mark.parametrize(
    "value",
    ["", "0002" + EMPTY[4:], EMPTY[:-2], EMPTY[:32] + "06" + EMPTY[34:], ONGOING[:34] + "7fffffff" + ONGOING[42:]],
)
def test_what_cannot_be_read_is_passed_over(value: str) -> None:
    machine = TransactionMachine(TransactionSettings())
    machine.apply(LogRecord(0, bytes.fromhex(KEY), bytes.fromhex(value)))
    machine.apply(LogRecord(1, b"", b"x"))
    machine.apply(LogRecord(2, bytes.fromhex("0009"), b"x"))
    machine.apply(LogRecord(3, bytes.fromhex("00000006676f"), b"x"))
    assert not machine.transactions


@given(
    st.builds(
        StoredTransaction,
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**15 - 1),
        st.integers(1, 2**31 - 1),
        st.sampled_from([S.ONGOING, S.PREPARE_COMMIT, S.COMPLETE_ABORT]),
        st.dictionaries(st.text(max_size=5), st.frozensets(st.integers(0, 2**31 - 1), max_size=5), max_size=3),
        st.integers(-1, 2**62),
        st.integers(-1, 2**62),
    )
)
def test_what_is_written_is_read(stored: StoredTransaction) -> None:
    assert decode_value(encode_value(stored)) == stored
    empty = replace(stored, state=S.EMPTY, partitions={})
    assert decode_value(encode_value(empty)) == empty
