"""Whether a server can listen somewhere: ``python -I predictor_site/ports.py HOST PORT``.

Runs on any Python and without our packages, so that script/server can ask before it sets up.
"""

from __future__ import annotations

import socket
import sys


def is_port_free(host: str, port: int) -> bool:
    """Whether a server can listen on ``host`` and ``port``."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def refuse_taken_port(host: str, port: int) -> int:
    """Exit code 0 where a server can listen, else 1 and one line that says what to choose."""
    if is_port_free(host, port):
        return 0
    print(
        f"script/server: cannot listen on {host} port {port}: it is taken, or not an address of "
        "this machine; choose with --port and --host",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(refuse_taken_port(sys.argv[1], int(sys.argv[2])))
