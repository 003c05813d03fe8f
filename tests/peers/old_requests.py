"""Requests of versions that Kafka 4 dropped, as bytes, and of version 0 of all others: the rows of `test_admin_answers`.

They are told apart by whom they go to: the controller makes topics, broker 1 leads them all, and a group has its coordinator. What an
answer says that no two clusters can agree on (ports, directories, member ids) is masked.
"""

from __future__ import annotations

import asyncio
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey

LEADER: Final = 1
GROUP: Final = "old-group"
CLOSED: Final = b"closed"
FLEXIBLE: Final = (ApiKey.ENVELOPE, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)
"""What has no version without tagged fields."""
FETCHES: Final = range(4)
"""The versions of Fetch that are compared on one log directory (`test_old_messages`), and so not here."""
_ANSWER_TIMEOUT_S: Final = 60
_DAY_MS: Final = 86_400_000
_MEMBER_ID: Final = re.compile(rb"old-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NO_MEMBER: Final = b"old-00000000-0000-0000-0000-000000000000"
"""Stands for the id that the last answer gave."""


class Row(NamedTuple):
    """One request; `to` is "controller", "leader" or "coordinator"."""

    name: str
    key: ApiKey
    version: int
    body: bytes
    to: str = "leader"

    def __str__(self) -> str:
        return f"{self.key.name} {self.version} of {self.name} to the {self.to}"


def i8(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}b", *numbers)


def i16(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}h", *numbers)


def i32(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


def i64(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}q", *numbers)


def text(value: str | None) -> bytes:
    return i16(-1) if value is None else i16(len(value.encode())) + value.encode()


def data(value: bytes) -> bytes:
    return i32(len(value)) + value


def array(*items: bytes) -> bytes:
    return i32(len(items)) + b"".join(items)


def message(magic: int, value: bytes, timestamp_ms: int = 1000) -> bytes:
    """A message set of one message without a key."""
    rest = i8(magic, 0) + (i64(timestamp_ms) if magic else b"") + i32(-1) + data(value)
    return i64(0) + data(struct.pack(">I", zlib.crc32(rest)) + rest)


def of_controller() -> Iterator[Row]:
    """What makes topics, and what is refused."""

    def create(topic: str, partitions: int = -1, replicas: int = -1, *configs: tuple[str, str | None]) -> bytes:
        assigned = [i32(index) + array(i32(LEADER)) for index in range(2)] if partitions < 0 else []
        settings = array(*(text(name) + text(value) for name, value in configs))
        return text(topic) + i32(partitions) + i16(replicas) + array(*assigned) + settings

    small = ("segment.bytes", "200")
    for version in (0, 1):
        more = b"\0" if version else b""
        key = ApiKey.CREATE_TOPICS
        wanted = array(create(f"old-{version}", -1, -1, small))
        yield Row("a topic", key, version, wanted + i32(30_000) + more, "controller")
        yield Row("a topic that exists", key, version, wanted + i32(30_000) + more, "controller")
        wrong = (
            create("no good name"),
            create("many", 1, 9),
            create("none", 0, 1),
            create("x", 1, 1, ("segment.bytes", "y")),
        )
        yield Row("topics that cannot be", key, version, array(*wrong) + i32(30_000) + more, "controller")
    yield Row(
        "a topic to validate", ApiKey.CREATE_TOPICS, 1, array(create("only", 1, 1)) + i32(9000) + i8(1), "controller"
    )
    yield Row("an unknown topic", ApiKey.DELETE_TOPICS, 0, array(text("unknown")) + i32(30_000), "controller")

    d, c, x = ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS
    every = i8(1) + text(None) * 3 + i8(1, 1)
    yield Row("all ACLs", d, 0, every, "controller")
    yield Row("a type that there is not", d, 0, i8(77) + every[1:], "controller")
    rule = i8(2) + text("t") + text("User:ann") + text("*") + i8(3, 3)
    yield Row("two ACLs", c, 0, array(rule, rule), "controller")
    yield Row("all ACLs", x, 0, array(every), "controller")

    t = "controller"
    yield Row("a token", ApiKey.CREATE_DELEGATION_TOKEN, 0, array(text("User") + text("ann")) + i64(-1), t)
    yield Row("a token", ApiKey.RENEW_DELEGATION_TOKEN, 0, data(b"hmac") + i64(-1), t)
    yield Row("a token", ApiKey.EXPIRE_DELEGATION_TOKEN, 0, data(b"hmac") + i64(-1), t)
    yield Row("all tokens", ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, i32(-1), t)
    yield Row("tokens", ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, array(text("User") + text("ann")), t)


def of_leader() -> Iterator[Row]:
    """Records, their offsets, and what is told of topics and directories."""
    p = ApiKey.PRODUCE
    for version, magic in ((0, 0), (1, 0), (2, 1), (2, 0)):
        for topic in ("old-0", "old-1", "unknown"):
            records = data(message(magic, b"v" * 60))
            body = i16(1) + i32(1000) + array(text(topic) + array(i32(0) + records))
            yield Row(f"a message of magic {magic} to {topic}", p, version, body)

    def offsets(timestamp: int, most: int, topic: str = "old-0", replica: int = -1, *more: int) -> bytes:
        partitions = [i32(index) + i64(timestamp) + i32(most) for index in (0, *more)]
        return i32(replica) + array(text(topic) + array(*partitions))

    o = ApiKey.LIST_OFFSETS
    yield Row("the end", o, 0, offsets(-1, 1))
    yield Row("the end of all", o, 0, offsets(-1, 100, "old-0", -1, 1, 2, 0))
    yield Row("the beginning", o, 0, offsets(-2, 100))
    yield Row("two of the newest", o, 0, offsets(-1, 2))
    yield Row("none", o, 0, offsets(-1, 0))
    yield Row("fewer than none", o, 0, offsets(-1, -1))
    yield Row("before a time long ago", o, 0, offsets(1, 100))
    yield Row("before a time to come", o, 0, offsets(1 << 62, 100))
    for time in (-3, -4, -5, -6):
        yield Row(f"the time {time}", o, 0, offsets(time, 100))
        yield Row(f"the time {time}", o, 1, i32(-1) + array(text("old-0") + array(i32(0) + i64(time))))
    yield Row("an unknown topic", o, 0, offsets(-1, 1, "unknown"))
    yield Row("a follower that is none", o, 0, offsets(-1, 3, "old-0", 77))
    yield Row("the debugging consumer", o, 0, offsets(-1, 3, "old-0", -2))

    e = ApiKey.OFFSET_FOR_LEADER_EPOCH
    for version in (0, 1):
        for epoch in (-1, 0, 9):
            wanted = array(text("old-0") + array(i32(0, epoch), i32(7, epoch)), text("unknown") + array(i32(0, epoch)))
            yield Row(f"epoch {epoch}", e, version, wanted)

    m = ApiKey.METADATA
    yield Row("a topic", m, 0, array(text("old-0")))
    yield Row("a name that is none", m, 0, array(text("no good name")))

    d = ApiKey.DESCRIBE_CONFIGS
    names = array(text("segment.bytes"), text("unknown"))
    yield Row("a topic's settings", d, 0, array(i8(2) + text("old-0") + names))
    yield Row("settings of nothing", d, 0, array(i8(2) + text("unknown") + names))
    yield Row("settings of nothing known", d, 0, array(i8(2) + text("old-0") + names, i8(9) + text("x") + i32(-1)))
    static = array(text("log.retention.hours"))
    yield Row("the broker's settings", d, 0, array(i8(4) + text(str(LEADER)) + static))
    yield Row("another broker's settings", d, 0, array(i8(4) + text("7") + static))
    settings = array(text("retention.ms") + text("77"))
    yield Row("a topic's settings", ApiKey.ALTER_CONFIGS, 0, array(i8(2) + text("unknown") + settings) + i8(0))

    moves = array(text("/no/such/folder") + array(text("old-0") + array(i32(0), i32(9))))
    yield Row("a move", ApiKey.ALTER_REPLICA_LOG_DIRS, 0, moves)
    yield Row("some directories", ApiKey.DESCRIBE_LOG_DIRS, 0, array(text("old-0") + array(i32(0), i32(9))))
    before = array(text("old-0") + array(i32(0) + i64(2)))
    yield Row("records", ApiKey.DELETE_RECORDS, 0, before + i32(1000))
    yield Row("the end of what is left", o, 0, offsets(-1, 100))
    yield Row("the beginning of what is left", o, 0, offsets(-2, 100))
    marked = array(text("old-0") + array(i32(0), i32(9)), text("unknown") + array(i32(0)))
    marker = i64(7) + i16(0) + i8(1) + marked + i32(0)
    yield Row("markers of a transaction", ApiKey.WRITE_TXN_MARKERS, 0, array(marker))
    yield Row("anything", ApiKey.ENVELOPE, 0, b"\1\0\1\0")
    compact_text = b"\2g"
    joining = compact_text + b"\1" + i32(0) + b"\0\0" + i32(-1) + b"\0\0\0\0"
    yield Row("a group of KIP-848", ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, joining)
    yield Row("two groups of KIP-848", ApiKey.CONSUMER_GROUP_DESCRIBE, 0, b"\3\2g\2h\0\0")
    yield Row("PLAIN", ApiKey.SASL_HANDSHAKE, 0, text("PLAIN"))
    yield Row("PLAIN", ApiKey.SASL_HANDSHAKE, 1, text("PLAIN"))
    yield Row("bytes", ApiKey.SASL_AUTHENTICATE, 0, data(b"bytes"))
    yield Row("bytes", ApiKey.SASL_AUTHENTICATE, 1, data(b"bytes"))


def of_zookeeper() -> Iterator[Row]:
    """Offsets that lie in ZooKeeper."""
    c, f = ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH
    groups = (GROUP, "", "a/b", "/", "..", "a\0b", "ü", "a" * 300)
    for group in groups:

        def commit(topic: str, index: int, offset: int, metadata: str | None = "m", group: str = group) -> bytes:
            return text(group) + array(text(topic) + array(i32(index) + i64(offset) + text(metadata)))

        def fetch(topic: str, *indexes: int, group: str = group) -> bytes:
            return text(group) + array(text(topic) + array(*map(i32, indexes)))

        name = f"group {group[:10]!r}"
        yield Row(f"nothing yet, {name}", f, 0, fetch("old-0", 0))
        yield Row(f"an offset, {name}", c, 0, commit("old-0", 0, 7))
        yield Row(f"an offset, {name}", f, 0, fetch("old-0", 0))
    for topic, index, offset, metadata in (
        ("old-0", 1, 1 << 62, None),
        ("old-0", 0, -1, ""),
        ("old-0", 2, 5, ""),
        ("unknown", 0, 5, ""),
        ("no good name", 0, 5, ""),
        ("old-1", 0, 5, "m" * 4097),
        ("old-1", 1, 5, "m" * 4096),
    ):
        body = text(GROUP) + array(text(topic) + array(i32(index) + i64(offset) + text(metadata)))
        yield Row(f"offset {offset} of {topic}-{index}", c, 0, body)
        yield Row(f"offset of {topic}-{index}", f, 0, text(GROUP) + array(text(topic) + array(i32(index))))
    yield Row("no topics", c, 0, text(GROUP) + array())
    yield Row("no topics", f, 0, text(GROUP) + array())
    twice = array(i32(0) + i64(8) + text(""), i32(0) + i64(9) + text(""))
    yield Row("one partition twice", c, 0, text(GROUP) + array(text("old-0") + twice))
    yield Row("one partition twice", f, 0, text(GROUP) + array(text("old-0") + array(i32(0), i32(0))))
    yield Row("garbage in a znode", f, 0, text("garbage") + array(text("old-0") + array(i32(0))))
    yield Row("nothing in a znode", f, 0, text("garbage") + array(text("old-0") + array(i32(1))))


GARBAGE: Final = {"/consumers/garbage/offsets/old-0/0": b" 7", "/consumers/garbage/offsets/old-0/1": b""}
"""Znodes that exist before `of_zookeeper` is asked."""


def of_coordinator() -> Iterator[Row]:
    """Offsets and members that the group's coordinator keeps."""
    c, f, t = ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, "coordinator"
    wanted = text(GROUP) + array(text("old-0") + array(i32(0), i32(1), i32(9)))
    yield Row("only in ZooKeeper", f, 1, wanted, t)

    def commit(generation: int, member: bytes, timestamp: int, index: int = 0) -> bytes:
        offset = i32(index) + i64(3) + i64(timestamp) + text("m")
        return text(GROUP) + i32(generation) + i16(len(member)) + member + array(text("old-0") + array(offset))

    yield Row("an offset now", c, 1, commit(-1, b"", -1), t)
    yield Row("an offset then", c, 1, commit(-1, b"", 1_700_000_000_000, 1), t)
    yield Row("a partition that there is not", c, 1, commit(-1, b"", -1, 9), t)
    yield Row("a member that there is not", c, 1, commit(1, b"nobody", -1), t)
    yield Row("what is committed", f, 1, wanted, t)

    protocols = array(text("range") + data(b"\0\0\0\0\0\1\0\1t\0\0\0\0"))
    none = i16(0)
    member = i16(len(_NO_MEMBER)) + _NO_MEMBER
    yield Row("a member", ApiKey.JOIN_GROUP, 0, text(GROUP) + i32(10_000) + none + text("consumer") + protocols, t)
    yield Row("it", ApiKey.HEARTBEAT, 0, text(GROUP) + i32(1) + member, t)
    yield Row("it", ApiKey.SYNC_GROUP, 0, text(GROUP) + i32(1) + member + array(member + data(b"share")), t)
    yield Row("it", ApiKey.HEARTBEAT, 0, text(GROUP) + i32(1) + member, t)
    yield Row("its offset", c, 1, commit(1, _NO_MEMBER, -1), t)
    yield Row("its offset of another generation", c, 1, commit(2, _NO_MEMBER, -1), t)
    yield Row("the group", ApiKey.DESCRIBE_GROUPS, 0, array(text(GROUP)), t)
    yield Row("the groups", ApiKey.LIST_GROUPS, 0, b"", t)
    yield Row("the group", ApiKey.DELETE_GROUPS, 0, array(text(GROUP)), t)
    yield Row("it", ApiKey.LEAVE_GROUP, 0, text(GROUP) + member, t)
    yield Row("who has left", ApiKey.HEARTBEAT, 0, text(GROUP) + i32(1) + member, t)
    yield Row("the group", ApiKey.DELETE_GROUPS, 0, array(text(GROUP)), t)
    yield Row("what is committed", f, 1, wanted, t)
    yield Row("what lies in ZooKeeper", f, 0, wanted, t)


def at_the_end() -> Iterator[Row]:
    for topic in ("old-0", "old-1"):
        yield Row(topic, ApiKey.DELETE_TOPICS, 0, array(text(topic)) + i32(30_000), "controller")


class Asker:
    """Sends rows to the brokers of one cluster."""

    def __init__(self, brokers: dict[int, tuple[str, int]], directories: list[str]) -> None:
        self._brokers, self._directories = brokers, directories
        self._addresses = {"leader": brokers[LEADER]}
        self._member_id = _NO_MEMBER

    @classmethod
    async def of(cls, servers: str, directories: list[str]) -> Asker:
        host, port = servers.split(",")[0].split(":")
        connection = await Connection.open(host, int(port))
        m = messages.metadata_request
        known = await connection.request(m.MetadataRequest(topics=[]), 9, _ANSWER_TIMEOUT_S)
        connection.close()
        asker = cls({each.node_id: (each.host, each.port) for each in known.brokers}, directories)
        asker._addresses["controller"] = asker._brokers[known.controller_id]
        return asker

    async def wait_for(self, *topics: str) -> None:
        """Until the leader knows the topics, and the coordinator of the group is known and serves it."""
        deadline_s = asyncio.get_running_loop().time() + _ANSWER_TIMEOUT_S
        connection = await Connection.open(*self._addresses["leader"])
        m, f = messages.metadata_request, messages.find_coordinator_request
        asked = m.MetadataRequest(topics=[m.MetadataRequestTopic(name=each) for each in topics])
        while True:
            known = await connection.request(asked, 9, _ANSWER_TIMEOUT_S)
            found = await connection.request(f.FindCoordinatorRequest(coordinator_keys=[GROUP]), 0, _ANSWER_TIMEOUT_S)
            coordinator = found.coordinators[0]
            leaders = [[p.leader_id for p in each.partitions] for each in known.topics]
            if leaders == [[LEADER] * 2] * len(topics) and not coordinator.error_code:
                self._addresses["coordinator"] = address = coordinator.host, coordinator.port
                if await _serves_group(*address):
                    break
            assert asyncio.get_running_loop().time() < deadline_s, (leaders, coordinator)
            await asyncio.sleep(0.05)
        connection.close()

    async def answers(self, rows: Iterator[Row]) -> list[tuple[str, bytes]]:
        """What each row is answered, masked."""
        return [(str(row), await self._answer(row)) for row in rows]

    async def _answer(self, row: Row) -> bytes:
        reader, writer = await asyncio.open_connection(*self._addresses[row.to])
        tags = b"\0" if row.key in FLEXIBLE else b""
        payload = (
            i16(row.key, row.version) + i32(7) + text("old") + tags + row.body.replace(_NO_MEMBER, self._member_id)
        )
        writer.write(data(payload))
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                size = int.from_bytes(await reader.readexactly(4))
                answer = await reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return CLOSED
        finally:
            writer.close()
        given = _MEMBER_ID.search(answer)
        if given:
            self._member_id = given[0]
        return self._masked(answer)

    def _masked(self, answer: bytes) -> bytes:
        answer = answer.replace(self._member_id, _NO_MEMBER)
        for broker_id, (_, port) in self._brokers.items():
            answer = answer.replace(i32(port), f"port of {broker_id}".encode())
        one, two = (
            i32(broker_id) + text(host) + f"port of {broker_id}".encode()
            for broker_id, (host, _) in sorted(self._brokers.items())
        )
        answer = answer.replace(two + one, one + two)  # Kafka's come from a hash map
        for directory in self._directories:
            answer = answer.replace(text(directory), b"a directory")
        return answer


async def _serves_group(host: str, port: int) -> bool:
    """True once the broker leads the group's partition of `__consumer_offsets` and has loaded it, which takes it a moment."""
    connection = await Connection.open(host, port)
    asked = messages.describe_groups_request.DescribeGroupsRequest(groups=[GROUP])
    described = await connection.request(asked, 0, _ANSWER_TIMEOUT_S)
    connection.close()
    return not described.groups[0].error_code
