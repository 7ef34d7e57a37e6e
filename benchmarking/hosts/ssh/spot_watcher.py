"""Runs on a spot machine beside the probe: ends it when the cloud is about to take the machine.

Started as ``python spot_watcher.py METADATA_URL SECONDS`` in the folder of a job. It asks the
metadata service (IMDSv2) every SECONDS. On a notice it writes it to the file ``interrupted``,
tells the probe to end after the timing under way, and ends itself; it also ends with the probe.
Needs Python 3.8 and nothing else.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 2.0
# For a probe that is never started.
LONGEST_WAIT_SECONDS = 600.0
START_POLL_SECONDS = 0.05


def read_notice(metadata_url: str) -> bytes | None:
    """The notice of the interruption, ``None`` as long as there is none or nobody answers."""
    try:
        token = _ask(
            metadata_url,
            "PUT",
            "/latest/api/token",
            {"X-aws-ec2-metadata-token-ttl-seconds": "60"},
        )
        if token is None:
            return None
        return _ask(
            metadata_url,
            "GET",
            "/latest/meta-data/spot/instance-action",
            {"X-aws-ec2-metadata-token": token.decode("ascii", "replace").strip()},
        )
    except (OSError, ValueError, http.client.HTTPException):
        return None


def _ask(metadata_url: str, method: str, path: str, headers: dict[str, str]) -> bytes | None:
    """The body of a good answer. No proxy is asked: none knows the link-local address."""
    parts = urlsplit(metadata_url)
    connection = http.client.HTTPConnection(
        parts.hostname or "", parts.port or 80, timeout=TIMEOUT_SECONDS
    )
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.read(10000) if response.status == 200 else None
    finally:
        connection.close()


def process_group() -> int | None:
    """The process group of the probe's shell, ``None`` as long as it is not started."""
    try:
        return int(Path("process").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return None


def is_over(group: int | None, started: float) -> bool:
    """Whether there is no probe to watch over any more."""
    if Path("exit_code").exists():
        return True
    if group is None:
        return time.monotonic() - started > LONGEST_WAIT_SECONDS
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def interrupt(notice: bytes, group: int) -> None:
    """Write the notice down, and tell the probe once however many watchers there are."""
    try:
        with Path("interrupted").open("xb") as file:
            file.write(notice)
    except FileExistsError:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGTERM)


def main(arguments: list[str]) -> int:
    """Watch until the notice comes or the probe ends."""
    metadata_url, seconds = arguments[0], float(arguments[1])
    started = time.monotonic()
    while True:
        group = process_group()
        if is_over(group, started):
            return 0
        notice = None if group is None else read_notice(metadata_url)
        if group is not None and notice is not None:
            interrupt(notice, group)
            return 0
        time.sleep(START_POLL_SECONDS if group is None else seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
