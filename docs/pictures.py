"""Pictures of a running site for README and docs; call it through ``script/pictures``."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Error, sync_playwright

IMAGES = Path(__file__).parent / "images"


@dataclass(frozen=True, slots=True)
class Picture:
    """A page as one visitor sees it; sizes in CSS pixels."""

    name: str
    path: str
    wait_for: str
    colours: Literal["light", "dark"] = "light"
    width: int = 1200
    height: int = 1340


PICTURES = (
    Picture("forecast-light", "/", ".plot .main-svg"),
    Picture("forecast-dark", "/", ".plot .main-svg", colours="dark"),
)


def take(browser: Browser, site: str, picture: Picture) -> Path:
    """Save one picture; returns where it lies."""
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme=picture.colours,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(site + picture.path)
    page.wait_for_selector(picture.wait_for)
    target = IMAGES / f"{picture.name}.png"
    page.screenshot(path=target)
    context.close()
    return target


def main(site: str) -> int:
    """Take every picture of the site at this address."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("pictures: chromium is not installed (Debian: apt-get install chromium)")
        return 2
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            for picture in PICTURES:
                print(take(browser, site.rstrip("/"), picture).relative_to(IMAGES.parent.parent))
        except Error as error:
            print(f"pictures: {site} gives no such page: {str(error).splitlines()[0]}")
            return 1
        finally:
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
