"""Ask a running site for one page at a steady rate, and print how it kept up.

Start a server first, for example ``script/server --only web`` (two web processes), then::

    .venv/bin/python benchmarks/load.py [--url URL] [--rate N] [--seconds S] [--senders N]

Requests start by the clock whether or not earlier ones are answered, and each one's time counts
from when it was due, so a server that falls behind cannot hide it. Exit code 1 where a request
failed or the rate was not kept.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import statistics
import sys
import threading
import time
from collections import Counter
from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "localhost", "::1")
LONGEST_SECONDS = 600.0
TIMEOUT_SECONDS = 30.0
# Answers may come this much later than their schedule ends before the rate counts as not kept.
ALLOWED_DELAY_SECONDS = 1.0


class Load:
    """Requests that are due every ``1 / rate`` seconds, sent by several threads.

    Parameters
    ----------
    url : str
        Page on a loopback address.
    rate : float
        Requests per second.
    seconds : float
        How long.
    """

    def __init__(self, url: str, *, rate: float, seconds: float) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or 80
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._rate = rate
        self._total = round(rate * seconds)
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._started_at = 0.0
        self.outcomes: Counter[str] = Counter()
        self.latencies_ms: list[float] = []
        self.received_bytes = 0
        self.elapsed_seconds = 0.0

    def run(self, senders: int) -> None:
        """Send everything; returns when the last answer came."""
        threads = [threading.Thread(target=self._send_until_done) for _ in range(senders)]
        self._started_at = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.elapsed_seconds = time.perf_counter() - self._started_at

    def _send_until_done(self) -> None:
        while True:
            with self._lock:
                number = next(self._numbers)
            if number >= self._total:
                return
            due_at = self._started_at + number / self._rate
            time.sleep(max(0.0, due_at - time.perf_counter()))
            if time.perf_counter() - due_at > TIMEOUT_SECONDS:
                outcome, received = "not sent: too far behind", 0
            else:
                outcome, received = self._ask()
            latency_ms = (time.perf_counter() - due_at) * 1000
            with self._lock:
                self.outcomes[outcome] += 1
                self.latencies_ms.append(latency_ms)
                self.received_bytes += received

    def _ask(self) -> tuple[str, int]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request("GET", self._target, headers={"Accept-Encoding": "gzip"})
            response = connection.getresponse()
            return str(response.status), len(response.read())
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__, 0
        finally:
            connection.close()


def parse_options() -> argparse.Namespace:
    """The command line, checked; exit code 2 where it is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--url", default="http://127.0.0.1:8000/")
    parser.add_argument("--rate", type=float, default=50.0, help="requests per second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--senders", type=int, default=32, help="requests at a time at most")
    options = parser.parse_args()
    parts = urlsplit(options.url)
    if parts.scheme != "http" or parts.hostname not in LOOPBACK:
        parser.error("--url must be http:// on this machine: load is for servers of one's own")
    if not 0 < options.rate <= 10_000:
        parser.error("--rate must be from 0 to 10000")
    if not 0 < options.seconds <= LONGEST_SECONDS:
        parser.error(f"--seconds must be from 0 to {LONGEST_SECONDS:.0f}")
    if not 1 <= options.senders <= 256:
        parser.error("--senders must be from 1 to 256")
    return options


def main() -> int:
    """Send, then print the numbers."""
    options = parse_options()
    load = Load(options.url, rate=options.rate, seconds=options.seconds)
    load.run(options.senders)
    answered = load.outcomes["200"]
    total = sum(load.outcomes.values())
    percentiles = statistics.quantiles(load.latencies_ms, n=100) if total > 1 else []
    print(f"{options.url}: {total} requests in {load.elapsed_seconds:.1f} s")
    print(f"asked for      {options.rate:8.1f} requests/s")
    print(f"answered (200) {answered / load.elapsed_seconds:8.1f} requests/s")
    for place in (50, 95, 99) if percentiles else ():
        print(f"p{place}            {percentiles[place - 1]:8.1f} ms")
    print(f"longest        {max(load.latencies_ms):8.1f} ms")
    print(f"size           {load.received_bytes / total / 1000:8.1f} kB per answer, compressed")
    print("outcomes       " + ", ".join(f"{key}: {n}" for key, n in load.outcomes.items()))
    kept_up = load.elapsed_seconds <= options.seconds + ALLOWED_DELAY_SECONDS
    return 0 if answered == total and kept_up else 1


if __name__ == "__main__":
    sys.exit(main())
