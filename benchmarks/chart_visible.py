"""Print how long a visitor waits for the first chart of a page, beside the limits aimed at.

Start a server first, for example ``script/server --only web``, then::

    .venv/bin/python benchmarks/chart_visible.py [--url URL] [--visitors N]

Each visitor comes three times with a browser profile of their own: the first time nothing is
cached, then the files are, and from the third time on the browser also has the scripts compiled
(private windows never do). Times count from the start of the navigation to the moment when the
chart stands in the page, by the browser's clock; the processor time of the page's main thread
stands beside them, for on a busy machine the clock says little. Exit code 1 where a median is over
its limit.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from playwright.sync_api import BrowserContext, Error, Playwright, sync_playwright

LIMITS_MS = {"first visit": 2000.0, "second visit": 1000.0, "third visit": 1000.0}
SETTLING_MS = 2000
TIMEOUT_MS = 60_000
MARK_THE_CHART = """
new MutationObserver((_, observer) => {
  if (!document.querySelector(".plot:not([hidden]) .main-svg .points path")) return;
  observer.disconnect();
  performance.mark("chart");
}).observe(document, { childList: true, subtree: true });
"""
READ_THE_MARK = 'performance.getEntriesByName("chart")[0]?.startTime ?? null'


@dataclass(frozen=True, slots=True)
class Visit:
    """How long it took until the chart stood in the page."""

    clock_ms: float
    processor_ms: float


def visit(context: BrowserContext, url: str) -> Visit:
    """Open the page in a new tab and wait for its chart."""
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.enable")
    page.goto(url, timeout=TIMEOUT_MS)
    page.wait_for_function(f"({READ_THE_MARK}) !== null", timeout=TIMEOUT_MS)
    metrics = session.send("Performance.getMetrics")["metrics"]
    (thread_seconds,) = (each["value"] for each in metrics if each["name"] == "ThreadTime")
    found = Visit(float(page.evaluate(READ_THE_MARK)), 1000 * thread_seconds)
    # The browser stores what it compiled a moment after the page is there.
    page.wait_for_timeout(SETTLING_MS)
    page.close()
    return found


def visits_of_one_visitor(playwright: Playwright, chromium: str, url: str) -> list[Visit]:
    """Three visits with a profile that is new at the first."""
    with tempfile.TemporaryDirectory() as profile:
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=chromium,
            args=["--no-sandbox"],
            viewport={"width": 1200, "height": 900},
        )
        context.add_init_script(MARK_THE_CHART)
        try:
            return [visit(context, url) for _ in LIMITS_MS]
        finally:
            context.close()


def report(title: str, visits: Sequence[Visit], limit_ms: float) -> bool:
    """Print the median and the range; returns whether the median keeps the limit."""
    times_ms = [each.clock_ms for each in visits]
    median = statistics.median(times_ms)
    processor = statistics.median(each.processor_ms for each in visits)
    print(
        f"{title:<13}{median:>7,.0f} ms   ({min(times_ms):,.0f} to {max(times_ms):,.0f} ms, "
        f"limit {limit_ms:,.0f} ms; main thread {processor:,.0f} ms)"
    )
    return median <= limit_ms


def main() -> int:
    """Visit and print; 2 where there is no browser or no page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--url", default="http://127.0.0.1:8000/")
    parser.add_argument("--visitors", type=int, default=5)
    options = parser.parse_args()
    if not 1 <= options.visitors <= 100:
        parser.error("--visitors must be from 1 to 100")
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chart_visible: chromium is not installed (Debian: apt-get install chromium)")
        return 2
    try:
        with sync_playwright() as playwright:
            visitors = [
                visits_of_one_visitor(playwright, chromium, options.url)
                for _ in range(options.visitors)
            ]
    except Error as error:
        print(f"chart_visible: {options.url} shows no chart: {str(error).splitlines()[0]}")
        return 2
    print(f"{options.url}: the chart of {options.visitors} visitors")
    kept = [
        report(title, [visits[number] for visits in visitors], limit_ms)
        for number, (title, limit_ms) in enumerate(LIMITS_MS.items())
    ]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
