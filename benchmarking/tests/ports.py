"""Ports for servers of tests."""

from __future__ import annotations

import socket


def free_port(address: str = "127.0.0.1") -> int:
    """A port of ``address`` on which nothing listens; of every address for ``0.0.0.0``."""
    with socket.socket() as listener:
        listener.bind((address, 0))
        return int(listener.getsockname()[1])
