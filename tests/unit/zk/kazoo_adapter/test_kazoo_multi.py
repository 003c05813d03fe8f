"""The bytes of a transaction are those of kazoo, and so is what its answer says."""

from __future__ import annotations

import struct

from kazoo.protocol.serialization import CheckVersion, Delete, MultiHeader, SetData, Transaction
from kazoo.protocol.serialization import Create as KazooCreate
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from zk.kazoo_adapter.kazoo_multi import Multi
from zk.protocol.requests import ResultError
from zk.security.znode_acls import ZnodeAcl
from zk.store import Check, Create, Stat, Write
from zk.store import Delete as DeleteZnode

STAT = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)


def test_the_request_is_what_kazoo_sends() -> None:
    acl = make_digest_acl("u", "p", all=True)
    ours = Multi(
        [
            (Check("/epoch", 7), "/root/epoch", None),
            (Create("/a", b"x"), "/root/a", None),
            (Create("/sn\N{SNOWMAN}w", b"", True, True), "/root/sn\N{SNOWMAN}w", [ZnodeAcl(31, "digest", acl.id.id)]),
            (Write("/b", b"y", 3), "/root/b", None),
            (DeleteZnode("/c", -1), "/root/c", None),
        ]
    )
    kazoo = Transaction(
        [
            CheckVersion("/root/epoch", 7),
            KazooCreate("/root/a", b"x", OPEN_ACL_UNSAFE, 0),
            KazooCreate("/root/sn\N{SNOWMAN}w", b"", [acl], 3),
            SetData("/root/b", b"y", 3),
            Delete("/root/c", -1),
        ]
    )
    assert (Multi.type, ours.serialize()) == (Transaction.type, bytes(kazoo.serialize()))


def test_an_answer_has_a_result_for_each_operation() -> None:
    def header(kind: int, error: int = 0) -> bytes:
        return bytes(MultiHeader(kind, False, error).serialize())

    end = bytes(MultiHeader(-1, True, -1).serialize())
    path = b"/root/a"
    done = header(13) + header(1) + struct.pack(">i", len(path)) + path + header(5) + struct.pack(">qqqqiiiqiiq", *STAT)
    assert Multi.deserialize(b"head" + done + header(2) + end, 4) == [
        None,
        "/root/a",
        Stat(1, 2, 3, 4, 5, 6, 8, 9, 10),
        None,
    ]
    refused = b"".join(header(-1, code) + struct.pack(">i", code) for code in (0, -103, -2))
    assert Multi.deserialize(refused + end, 0) == [ResultError(0), ResultError(-103), ResultError(-2)]
