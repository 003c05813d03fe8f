"""Makes some machines of a network silent to this one, as broken wires would: for tests, run inside a container.

    python3 -m kafkalite.testing.containers.neighbours silence|hear ADDRESS...      (IPv4; root with NET_ADMIN)

A machine is silenced by a permanent entry in the table of neighbours (ARP) with a hardware address that nobody has. Packets
leave and arrive nowhere: connections stay open and new ones wait, where a filter or a route would need programs that the image
does not have, or would tell the sender at once.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Final

SILENCE: Final = "silence"
HEAR: Final = "hear"

_NOBODY: Final = bytes.fromhex("0200deadbeef")
_ETHERNET: Final = 1
_SIOCDARP: Final = 0x8953
_SIOCSARP: Final = 0x8955
_COMPLETE_AND_PERMANENT: Final = 0x02 | 0x04


def main(arguments: Sequence[str]) -> int:
    action, *addresses = arguments
    requests = {SILENCE: _SIOCSARP, HEAR: _SIOCDARP}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for address in addresses:
            fcntl.ioctl(control, requests[action], arp_request(address, "eth0"))
    return 0


def arp_request(address: str, device: str) -> bytes:
    """Return Linux's struct arpreq: protocol address, hardware address, flags, netmask, device."""
    protocol = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
    hardware = struct.pack("=H14s", _ETHERNET, _NOBODY)
    return protocol + hardware + struct.pack("=i16x16s", _COMPLETE_AND_PERMANENT, device.encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
