"""Names in certificates as Java writes them (X500Principal.getName, RFC 2253), because rules and ACLs contain that text. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ENCODINGS: Final = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1C: "utf-32-be", 0x1E: "utf-16-be"}


def rfc2253(der: bytes) -> str:
    """Return the text of a name in DER, its most specific part first. Raises ValueError for anything but a name."""
    try:
        ((_, content, _),) = _items(der)
        relative = ["+".join(_attribute(pair) for _, pair, _ in _items(one)) for _, one, _ in _items(content)]
    except (IndexError, UnicodeDecodeError) as problem:
        raise ValueError(f"no name in DER: {problem}") from None
    return ",".join(reversed(relative))


def _items(der: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (tag, content, whole element) of each element."""
    position = 0
    while position < len(der):
        begin, tag, size = position, der[position], der[position + 1]
        position += 2
        if size & 0x80:
            width = size & 0x7F
            size = int.from_bytes(der[position : position + width], "big")
            position += width
        end = position + size
        if end > len(der):
            raise ValueError("no name in DER: an element is cut")
        yield tag, der[position:end], der[begin:end]
        position = end


def _attribute(pair: bytes) -> str:
    (_, oid, _), (tag, content, whole) = _items(pair)
    dotted = _to_dotted(oid)
    keyword, encoding = _KEYWORDS.get(dotted), _ENCODINGS.get(tag)
    if keyword is None or encoding is None:
        return f"{keyword or dotted}=#{whole.hex()}"
    text = re.sub(r'([,+"\\<>;])', r"\\\1", content.decode(encoding))
    if text[:1] in ("#", " "):
        text = "\\" + text
    if text.endswith(" ") and len(text) > 1:
        text = text[:-1] + "\\ "
    return f"{keyword}={text}"


def _to_dotted(oid: bytes) -> str:
    numbers, value = [], 0
    for byte in oid:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))
