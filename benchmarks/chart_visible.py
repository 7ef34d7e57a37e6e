"""Print how long a visitor waits for the first chart of a page, beside the limits aimed at.

Start a server first, for example ``script/server --only web``, then::

    .venv/bin/python benchmarks/chart_visible.py [--url URL] [--visits N]

A first visit has an empty cache, the next one has the files of the first. Times count from the
start of the navigation to the moment when the chart stands in the page, by the browser's clock.
Exit code 1 where a median is over its limit.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from collections.abc import Sequence

from playwright.sync_api import Browser, Error, Page, sync_playwright

FIRST_LIMIT_MS = 2000.0
NEXT_LIMIT_MS = 1000.0
TIMEOUT_MS = 60_000
MARK_THE_CHART = """
new MutationObserver((_, observer) => {
  if (!document.querySelector(".plot:not([hidden]) .main-svg .points path")) return;
  observer.disconnect();
  performance.mark("chart");
}).observe(document, { childList: true, subtree: true });
"""
READ_THE_MARK = 'performance.getEntriesByName("chart")[0]?.startTime ?? null'


def chart_ms(page: Page, url: str) -> float:
    """Milliseconds from the start of the navigation to the chart."""
    page.goto(url)
    page.wait_for_function(f"({READ_THE_MARK}) !== null", timeout=TIMEOUT_MS)
    return float(page.evaluate(READ_THE_MARK))


def two_visits(browser: Browser, url: str) -> tuple[float, float]:
    """A first visit with nothing cached, and the next one."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.add_init_script(MARK_THE_CHART)
    first = chart_ms(context.new_page(), url)
    again = chart_ms(context.new_page(), url)
    context.close()
    return first, again


def report(title: str, times_ms: Sequence[float], limit_ms: float) -> bool:
    """Print the median and the range; returns whether the median keeps the limit."""
    median = statistics.median(times_ms)
    print(
        f"{title:<13}{median:>7,.0f} ms   ({min(times_ms):,.0f} to {max(times_ms):,.0f} ms, "
        f"limit {limit_ms:,.0f} ms)"
    )
    return median <= limit_ms


def main() -> int:
    """Visit and print; 2 where there is no browser or no page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--url", default="http://127.0.0.1:8000/")
    parser.add_argument("--visits", type=int, default=5)
    options = parser.parse_args()
    if not 1 <= options.visits <= 100:
        parser.error("--visits must be from 1 to 100")
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chart_visible: chromium is not installed (Debian: apt-get install chromium)")
        return 2
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            visits = [two_visits(browser, options.url) for _ in range(options.visits)]
        except Error as error:
            print(f"chart_visible: {options.url} shows no chart: {str(error).splitlines()[0]}")
            return 2
        finally:
            browser.close()
    print(f"{options.url}: the chart of {options.visits} visits")
    first_is_kept = report("first visit", [first for first, _ in visits], FIRST_LIMIT_MS)
    next_is_kept = report("next visit", [again for _, again in visits], NEXT_LIMIT_MS)
    return 0 if first_is_kept and next_is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
