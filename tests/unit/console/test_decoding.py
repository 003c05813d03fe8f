"""What bytes are shown as, and that whoever asks for something is not answered without bounds."""

from __future__ import annotations

import msgpack
import pytest

from kafkalite.console.decoding import SHORT_BYTES, WHOLE_BYTES, decode_text, hex_dump
from kafkalite.console.parameters import BadRequestError, Parameters, cut_page
from kafkalite.console.znodes import MEANINGS, meaning_of
from kafkalite.types import TopicPartition
from tests.case import case
from zk import paths


def test_bytes_are_shown_as_what_they_look_like() -> None:
    for data, kind, text in (
        (None, "null", ""),
        (b"", "text", ""),
        (b"hello\n", "text", "hello\n"),
        (b"<script>alert(1)</script>", "text", "<script>alert(1)</script>"),
        (b"17", "text", "17"),
        (b'{"a": [1]}', "json", '{"a": [1]}'),
        (b'{"a": ', "text", '{"a": '),
        (b"[" * 100_000, "text", "[" * SHORT_BYTES),
        (msgpack.packb({"a": b"\xff", 1: None}), "msgpack", '{"a": "ff", "1": null}'),
        (msgpack.packb([1]) + b"more", "hex", hex_dump(msgpack.packb([1]) + b"more")),
        (b"\x00\x01ab", "hex", "000000  00 01 61 62                                      ..ab"),
        ("größer".encode(), "text", "größer"),
    ):
        with case(data and data[:20]):
            found = decode_text(data)
            assert (found["kind"], found["text"]) == (kind, text)


def test_a_reader_says_what_bytes_shall_be() -> None:
    assert decode_text(b"17", "json")["kind"] == "json"
    assert decode_text(b"\xff", "text")["text"] == "\\xff"
    assert decode_text(b"hello", "hex")["text"].endswith("hello")
    assert decode_text(b"no json", "json")["kind"] == "hex", "what it is not, it is not shown as"
    assert decode_text(b"\x01", "msgpack")["text"] == "1"


def test_json_is_shown_as_it_is_written() -> None:
    written = (
        '{"twice": 1, "twice":1e400,"n":12345678901234567890.10, "e":{ }, "t":"a \\"{,:}\\u00e9", "l":[ [],[1 , true]]}'
    )
    assert decode_text(written.encode())["text"] == written
    assert decode_text(written.encode(), limit_bytes=WHOLE_BYTES)["text"] == written


def test_bytes_that_look_like_something_else_have_a_reason() -> None:
    for data, kind, reason in (
        (b"hello", "text", None),
        (b'{"a": 1}', "json", None),
        (b"\xff\xfe", "hex", "it is not UTF-8 (byte 0)"),
        (b"a\x02\x01", "hex", "it has control characters (0x01)"),
        (b'{"a":\n oops}', "text", "it is not valid as JSON (line 2, column 2: Expecting value)"),
        (b'{"a": "\xff"}', "hex", "it is not valid as JSON (byte 7 is no UTF-8)"),
        (b"[" * 200_000, "text", "it is not valid as JSON (nested too deeply)"),
        (b"[" + b"9" * 5_000 + b"]", "text", "it is not valid as JSON (Exceeds the limit (4300 digits)"),
        (msgpack.packb([1]) + b"more", "hex", "it is not valid as msgpack (bytes follow its value)"),
        (msgpack.packb([1, 2])[:2], "hex", "it is not valid as msgpack (incomplete or broken)"),
        ("߀".encode(), "text", None),
        (
            b"\x00\x00\x00\x00\x07\x02",
            "hex",
            "no registry was named: if it has schema 7 of one, give --schema-registry",
        ),
        ((17).to_bytes(8, "big"), "hex", "it has control characters (0x00)"),
    ):
        with case(data[:20]):
            found = decode_text(data)
            assert found["kind"] == kind and str(found["reason"]).startswith(str(reason))
    assert decode_text(b"x", "json")["reason"] == "it is not valid as JSON (line 1, column 1: Expecting value)"


def test_long_json_is_parsed_only_for_whoever_opens_the_record() -> None:
    written = b'["%s"]' % (b"x" * 300_000)
    found = decode_text(written)
    assert (found["kind"], found["is_cut"]) == ("text", True)
    assert found["reason"] == "JSON of more than 256 KiB is not parsed in a list; open the record"
    assert decode_text(written, limit_bytes=WHOLE_BYTES) | {"text": ""} == {
        "kind": "json",
        "text": "",
        "bytes": 300_004,
        "is_cut": False,
        "reason": None,
    }
    found = decode_text(written * 4, limit_bytes=WHOLE_BYTES)
    assert found["reason"] == "JSON of more than 1024 KiB is not parsed here"


def test_long_values_are_cut() -> None:
    found = decode_text(b"x" * 100_000)
    assert len(found["text"]) == SHORT_BYTES and found["is_cut"] and found["bytes"] == 100_000
    found = decode_text(b"\x00" * 100_000)
    assert found["is_cut"] and len(found["text"]) < 10 * SHORT_BYTES


def test_requests_that_make_no_sense_are_refused() -> None:
    given = Parameters(
        {"n": "x", "big": "9" * 30, "b": True, "long": "x" * 20_000, "p": "1,,2", "at": "0:1,1:", "rows": "501"}
    )
    for call in (
        lambda: given.number("n", 0),
        lambda: given.number("big", 0),
        lambda: given.number("b", 0),
        lambda: given.text("long"),
        lambda: given.one_of("n", ("a", "b"), "a"),
        lambda: given.partitions("p"),
        lambda: given.positions("at", "t"),
        given.page,
    ):
        with pytest.raises(BadRequestError):
            call()
    sound = Parameters({"p": "2,0,2", "at": "0:17,3:4", "n": 5, "yes": "1"})
    assert sound.partitions("p") == [0, 2] and sound.number("n", 0) == 5 and sound.flag("yes") and not sound.flag("no")
    assert sound.positions("at", "t") == {TopicPartition("t", 0): 17, TopicPartition("t", 3): 4}
    assert cut_page(list(range(7)), 1, 3) == {"rows": [3, 4, 5], "count": 7, "page": 1, "rows_per_page": 3}


def test_every_path_of_the_cluster_has_a_meaning() -> None:
    constants = [
        value
        for name, value in vars(paths).items()
        if name.isupper() and isinstance(value, str) and value.startswith("/")
    ]
    prefixes = [each for each in constants if each.endswith("_")]
    made = [
        paths.broker(1),
        paths.partition_state("t", 0),
        paths.topic_config("t"),
        paths.broker_config(None),
        paths.user_config("u", "c"),
        paths.consumer_offset("g", "t", 0),
        paths.consumer_owner("g", "t", 0),
        paths.resource_acls("Topic", "t", True),
        paths.resource_acls("Topic", "t", False),
        paths.spark_job_lock("file:///x"),
        *(f"{each}0000000001" for each in prefixes),
    ]
    for path in [each for each in constants if each not in prefixes] + made:
        with case(path):
            assert meaning_of(path) is not None
    assert meaning_of("/unknown") is None
    assert len({each.path for each in MEANINGS}) == len(MEANINGS)


def test_secrets_of_the_tree_are_known() -> None:
    for path in (paths.user_config("u"), paths.broker_config(1), f"{paths.DELEGATION_TOKENS}/x"):
        found = meaning_of(path)
        assert found is not None and found.is_secret
