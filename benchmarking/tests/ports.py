"""Ports for servers of tests."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_RANGE_OF_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000


def free_port(address: str = "127.0.0.1") -> int:
    """A port of ``address`` on which nothing listens; of every address for ``0.0.0.0``.

    Below those that the system gives to connections: none of them takes it before its server
    does. Drawn by chance, so that tests side by side hardly ever draw the same.
    """
    drawn = random.SystemRandom()
    while True:
        port = drawn.randrange(_LOWEST, _first_port_of_connections())
        with socket.socket() as listener:
            try:
                listener.bind((address, port))
            except OSError:
                continue
        return port


def _first_port_of_connections() -> int:
    if not _RANGE_OF_CONNECTIONS.exists():
        return 32_768
    first = int(_RANGE_OF_CONNECTIONS.read_text(encoding="ascii").split()[0])
    return first if first > _LOWEST + 1000 else 65_536
