"""The requests of ZooKeeper's protocol that a store sends, and what is in their replies. No I/O.

Paths have their chroot. Codes of operations and errors are those of `ZooDefs.OpCode` and `KeeperException.Code`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct, error
from typing import Any, Final, TypeAlias

from zk.protocol.jute import (
    INT,
    STAT,
    MalformedError,
    decode_buffer,
    decode_int,
    decode_stat,
    decode_string,
    decode_strings,
    encode_buffer,
    encode_string,
    encode_strings,
)
from zk.security.znode_acls import ZnodeAcl
from zk.store import Create, Delete, Operation, Stat, Write

Decode: TypeAlias = Callable[[bytes, int], Any]
"""Reads the body of a reply, from an offset on. Raises MalformedError."""


class Code(IntEnum):
    """Types of requests."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    CHECK = 13
    MULTI = 14
    MULTI_READ = 22
    SET_WATCHES = 101
    SASL = 102
    CLOSE = -11


class ErrorCode(IntEnum):
    """Errors that a store tells apart."""

    OK = 0
    RUNTIME_INCONSISTENCY = -2
    CONNECTION_LOSS = -4
    MARSHALLING = -5
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    REQUIRES_SASL = -124


SET_WATCHES_XID: Final = -8

WATCHES_BYTES_TOGETHER: Final = 128 * 1024
"""Bytes of paths in one request to arm watches again, as in the Java client."""

_OPERATION: Final = Struct(">iBi")
"""Before each operation of a multi and each result: its type, whether it is the end, and an error."""
_END: Final = _OPERATION.pack(-1, 1, -1)
_WRITE: Final = _OPERATION.pack(Code.SET_DATA, 0, -1)
_ERROR_RESULT: Final = -1
_EPHEMERAL, _SEQUENCE = 1, 2
_NO_WATCH: Final = b"\0"
_WATCH: Final = b"\1"
_LONG: Final = Struct(">q")
_OPEN_ACL: Final = (ZnodeAcl(31, "world", "anyone"),)


@dataclass(slots=True, eq=False)
class Request:
    """A request without its number."""

    code: Code
    body: bytes
    decode: Decode


@dataclass(frozen=True, slots=True)
class ResultError:
    """The error of one operation of a multi or multiRead."""

    code: int


def get_data(path: str, *, watch: bool = False) -> Request:
    """Return a read; the reply is data and Stat."""
    return Request(Code.GET_DATA, encode_string(path) + (_WATCH if watch else _NO_WATCH), _decode_data_and_stat)


def exists(path: str, *, watch: bool = False) -> Request:
    """Return a question for a znode; the reply is its Stat, None when it is absent."""
    return Request(Code.EXISTS, encode_string(path) + (_WATCH if watch else _NO_WATCH), _decode_only_stat)


def get_children(path: str, *, watch: bool = False) -> Request:
    """Return a question for the names below a znode; the reply is a list in any order."""
    return Request(Code.GET_CHILDREN, encode_string(path) + (_WATCH if watch else _NO_WATCH), _decode_names)


def create(operation: Create, path: str, acl: Sequence[ZnodeAcl] | None) -> Request:
    """Return the creation of a znode at `path`; the reply is the path made. Empty data is sent as none at all."""
    return Request(Code.CREATE, _encode_create(operation, path, operation.data or None, acl), _decode_path)


def set_data(path: str, data: bytes, version: int) -> Request:
    """Return a write; the reply is the znode's new Stat."""
    return Request(Code.SET_DATA, _encode_write(path, data, version), _decode_only_stat)


def delete(path: str, version: int) -> Request:
    return Request(Code.DELETE, _encode_version(path, version), _decode_nothing)


def sync(path: str) -> Request:
    return Request(Code.SYNC, encode_string(path), _decode_nothing)


def get_acl(path: str) -> Request:
    """Return a question for an ACL; the reply is a list of ZnodeAcl."""
    return Request(Code.GET_ACL, encode_string(path), _decode_acl)


def set_acl(path: str, acl: Sequence[ZnodeAcl]) -> Request:
    return Request(Code.SET_ACL, encode_string(path) + _encode_acl(acl) + INT.pack(-1), _decode_nothing)


def close_session() -> Request:
    return Request(Code.CLOSE, b"", _decode_nothing)


def sasl(token: bytes) -> Request:
    """Return a step of an authentication; the reply is the server's token."""
    return Request(Code.SASL, encode_buffer(token), _decode_token)


def multi(operations: Sequence[tuple[Operation, str, Sequence[ZnodeAcl] | None]]) -> Request:
    """Return a transaction of operations, each with its path and the ACL of a Create.

    The reply has a result for each: of a Create its path, of a Write its Stat, else None; ResultError for all when one failed.
    """
    parts: list[bytes] = []
    for operation, path, acl in operations:
        if isinstance(operation, Write):  # there may be a hundred thousand
            encoded, data = path.encode(), operation.data
            parts += (_WRITE, INT.pack(len(encoded)), encoded, INT.pack(len(data)), data, INT.pack(operation.version))
            continue
        if isinstance(operation, Create):
            code, body = Code.CREATE, _encode_create(operation, path, operation.data, acl)
        elif isinstance(operation, Delete):
            code, body = Code.DELETE, _encode_version(path, operation.version)
        else:
            code, body = Code.CHECK, _encode_version(path, operation.version)
        parts += (_OPERATION.pack(code, 0, -1), body)
    return Request(Code.MULTI, b"".join((*parts, _END)), decode_results)


def multi_read(paths: Sequence[str]) -> Request:
    """Return a read of many znodes (ZOOKEEPER-3402, since 3.6); the reply has data and Stat, or ResultError, of each. No watch is armed."""
    head = _OPERATION.pack(Code.GET_DATA, 0, -1)
    parts = [head + encode_string(path) + _NO_WATCH for path in paths]
    return Request(Code.MULTI_READ, b"".join((*parts, _END)), decode_results)


def set_watches(since_zxid: int, data: Sequence[str], absent: Sequence[str], children: Sequence[str]) -> Request:
    """Return what arms watches again on a new connection, and has the server send the events since `since_zxid`."""
    body = _LONG.pack(since_zxid) + encode_strings(data) + encode_strings(absent) + encode_strings(children)
    return Request(Code.SET_WATCHES, body, _decode_nothing)


def split_paths(paths: Iterable[str], most_bytes: int) -> Iterator[list[str]]:
    """Yield the paths in groups of at most `most_bytes` bytes, in order; a longer path is alone."""
    some: list[str] = []
    size_bytes = 0
    for path in paths:
        own_bytes = INT.size + len(path.encode())
        if some and size_bytes + own_bytes > most_bytes:
            yield some
            some, size_bytes = [], 0
        some.append(path)
        size_bytes += own_bytes
    if some:
        yield some


# -- bodies of requests


def _encode_create(operation: Create, path: str, data: bytes | None, acl: Sequence[ZnodeAcl] | None) -> bytes:
    flags = (_EPHEMERAL if operation.ephemeral else 0) | (_SEQUENCE if operation.sequence else 0)
    return encode_string(path) + encode_buffer(data) + _encode_acl(acl or _OPEN_ACL) + INT.pack(flags)


def _encode_write(path: str, data: bytes, version: int) -> bytes:
    return encode_string(path) + encode_buffer(data) + INT.pack(version)


def _encode_version(path: str, version: int) -> bytes:
    return encode_string(path) + INT.pack(version)


def _encode_acl(acl: Sequence[ZnodeAcl]) -> bytes:
    entries = [INT.pack(each.permissions) + encode_string(each.scheme) + encode_string(each.id) for each in acl]
    return INT.pack(len(entries)) + b"".join(entries)


# -- bodies of replies


def _decode_nothing(message: bytes, offset: int) -> None:
    return None


def _decode_path(message: bytes, offset: int) -> str:
    return decode_string(message, offset)[0]


def _decode_names(message: bytes, offset: int) -> list[str]:
    return decode_strings(message, offset)[0]


def _decode_token(message: bytes, offset: int) -> bytes:
    return decode_buffer(message, offset)[0]


def _decode_only_stat(message: bytes, offset: int) -> Stat:
    return decode_stat(message, offset)[0]


def _decode_data_and_stat(message: bytes, offset: int) -> tuple[bytes, Stat]:
    data, offset = decode_buffer(message, offset)
    return data, decode_stat(message, offset)[0]


def _decode_acl(message: bytes, offset: int) -> list[ZnodeAcl]:
    count, offset = decode_int(message, offset)
    acl: list[ZnodeAcl] = []
    for _ in range(count):
        permissions, offset = decode_int(message, offset)
        scheme, offset = decode_string(message, offset)
        identity, offset = decode_string(message, offset)
        acl.append(ZnodeAcl(permissions, scheme, identity))
    return acl


def decode_results(message: bytes, offset: int) -> list[Any]:
    """Return the results of a multi or a multiRead. Reads and writes are decoded without calls: there may be very many."""
    results: list[Any] = []
    unpack, unpack_stat, unpack_size = _OPERATION.unpack_from, STAT.unpack_from, INT.unpack_from
    try:
        while True:
            code, is_end, _ = unpack(message, offset)
            offset += _OPERATION.size
            if is_end:
                return results
            if code == Code.SET_DATA:
                results.append(Stat(*unpack_stat(message, offset)))
                offset += STAT.size
            elif code == Code.GET_DATA:
                (size_bytes,) = unpack_size(message, offset)
                start = offset + INT.size
                offset = start + size_bytes if size_bytes > 0 else start
                # Without all of its data there is no stat behind it either, and nothing is copied before the stat is there.
                stat = Stat(*unpack_stat(message, offset))
                results.append((message[start:offset], stat))
                offset += STAT.size
            else:
                result, offset = _decode_other_result(code, message, offset)
                results.append(result)
    except error:
        raise MalformedError("a list of results is cut off") from None


def _decode_other_result(code: int, message: bytes, offset: int) -> tuple[Any, int]:
    """Return the result of another operation than a read or a write, or the error of any, and the offset behind it."""
    if code == _ERROR_RESULT:
        number, offset = decode_int(message, offset)
        return ResultError(number), offset
    if code == Code.CREATE:
        return decode_string(message, offset)
    if code not in (Code.DELETE, Code.CHECK):
        raise MalformedError(f"a result of type {code} was not asked for")
    return None, offset
