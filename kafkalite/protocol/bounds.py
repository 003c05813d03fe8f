"""Bounds of what reading a message may cost: they follow from its schema and are checked before anything is made.

| Bound | What it is held to |
|---|---|
| tagged fields | of one struct or header: those that the schema has and `UNKNOWN_TAGS` more (KIP-482 allows any number) |
| array | an item takes as many bytes at least as its schema says, so the bytes that are left bound the count |
| string | in flexible versions too 32,767 bytes, as Kafka's `Message` classes refuse longer ones |
| memory | all that is made of one message: a `Budget`, in proportion to its bytes |

A message of up to PLAIN_BYTES is bounded by its bytes alone. For a longer one every object is charged before it is made, and it is read
in portions, so that the event loop turns in between. Nesting is bounded by the schemas, none of which contains itself; a varint has five
bytes at most.
"""

from __future__ import annotations

from typing import Any, Final

from kafkalite.errors import BoundExceeded
from kafkalite.protocol.schemas.schema import FIXED_FORMATS, Field, Struct, size_of

UNKNOWN_TAGS: Final = 32
"""Tagged fields that a newer peer may add to what a version's schema has. Kafka has never added more than three."""
STRING_BYTES_MAX: Final = 32_767
SMALL_BYTES: Final = 64 * 1024
"""Memory that is not worth counting."""
PLAIN_BYTES: Final = 128 * 1024
"""Longest message that is read without a budget: 65,000 structs at most, in some tens of milliseconds."""
REQUEST_MEMORY_BYTES: Final = 64 * 1024 * 1024
"""Memory for a request, beside half of its bytes: 100,000 topics of one partition fit."""
BROKERS_MEMORY_BYTES: Final = 256 * 1024 * 1024
BROKERS_MEMORY_FACTOR: Final = 8
"""Memory for each byte of a request between brokers, up to the above: a controller may have to send LeaderAndIsr with
300,000 topics of one partition, which fits, while few bytes still buy little."""
RESPONSE_MEMORY_BYTES: Final = 256 * 1024 * 1024
"""Memory for a response, beside half of its bytes: metadata of half a million partitions. The client has chosen the broker."""
PORTION: Final = 1000
"""Items that are read in one go, which takes 1 to 3 ms."""

ITEM_BYTES: Final = 128
"""Least charge for an item of an array that is a struct, for what a handler makes of it."""
LIST_BYTES: Final = 56
STRING_BYTES: Final = 64
"""Charge for a string or bytes, beside their contents."""
RECORDS_BYTES: Final = 208
"""Charge for a view of records, whose bytes stay where they are."""
INT_BYTES: Final = 32
"""Charge for an int that Python does not keep ready."""
_GC_BYTES: Final = 16
_PLACE_BYTES: Final = 9
"""In a list that grows."""
_ARRAYS_SHARED: Final = 1024


class Budget:
    """Memory that one message may still take, and items that may be read before the loop has to turn.

    Equal arrays of numbers share their numbers, as long as there are few of them: the replicas of 100,000 partitions are sets of the same
    brokers.
    """

    __slots__ = ("_first_bytes", "arrays", "items", "left_bytes")

    def __init__(self, message_bytes: int, memory_bytes: int) -> None:
        self.left_bytes = self._first_bytes = memory_bytes + message_bytes // 2
        self.items = PORTION
        self.arrays: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    @property
    def charged_bytes(self) -> int:
        """Return the bytes charged so far."""
        return self._first_bytes - self.left_bytes

    def charge(self, size: int) -> None:
        """Take this much. BoundExceeded when it is not there."""
        self.left_bytes -= size
        if self.left_bytes < 0:
            raise BoundExceeded("memory", f"its parts would take more than {self._first_bytes} bytes")

    def share_array(self, numbers: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the same numbers, those of an equal array where one was read before; charged where they are new."""
        known = self.arrays.get(numbers)
        if known is not None:
            return known
        self.charge(INT_BYTES * len(numbers))
        if len(self.arrays) < _ARRAYS_SHARED:
            self.arrays[numbers] = numbers
        return numbers


def too_many_tags(count: int, most: int) -> BoundExceeded:
    """Return the error for a struct, or a header, of more tagged fields than there can be."""
    return BoundExceeded("tagged fields", f"{count} tagged fields where there can be {most}")


def least_bytes(field: Field, flexible: bool) -> int:
    """Return the shortest encoding of a field without a tag."""
    if field.is_array:
        return 1 if flexible else 4
    if isinstance(field.type, Struct):
        return 1 if field.nullable else _least_bytes_of_struct(field.type)
    if field.type in FIXED_FORMATS:
        return size_of(FIXED_FORMATS[field.type])
    return 1 if flexible else (2 if field.type == "string" else 4)


def _least_bytes_of_struct(struct: Struct) -> int:
    untagged = sum(least_bytes(field, struct.flexible) for field in struct.fields if field.tag is None)
    return untagged + struct.flexible


def least_item_bytes(field: Field, flexible: bool) -> int:
    """Return the shortest encoding of an item of an array; at least 1, so that no count is free."""
    return max(1, least_bytes(Field(field.name, field.type), flexible))


def struct_bytes(struct: Struct, classes: dict[str, type]) -> int:
    """Return the memory of an object of `struct` without arrays, texts and large numbers, which are charged when they are read."""
    kind = classes[struct.name]
    size = kind.__basicsize__ + _GC_BYTES
    present = {field.name: field for field in struct.fields if field.tag is None}
    for field in kind.FIELDS:  # type: ignore[attr-defined]
        read = present.get(field.name)
        if read is not None:
            if isinstance(read.type, Struct) and not read.is_array and not read.nullable:
                size += struct_bytes(read.type, classes)
            elif read.type == "uuid" and not read.is_array:
                size += STRING_BYTES
        elif field.has_own_default:
            size += LIST_BYTES if field.is_array else struct_bytes(field.type, classes)
    return size


def item_bytes(struct: Struct, classes: dict[str, type]) -> int:
    """Return the charge for an item of an array that is a struct, its place in the list included."""
    return max(ITEM_BYTES, struct_bytes(struct, classes) + _PLACE_BYTES)
