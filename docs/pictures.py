"""Pictures of a running site for README and docs; call it through ``script/pictures``."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Error, sync_playwright

IMAGES = Path(__file__).parent / "images"
COLOURS = 256
TIMEOUT_MS = 120_000
CHART = ".plot .main-svg"

COMPARED = "".join(
    f"&machine={slug}"
    for slug in (
        "aws-g4dn.xlarge",
        "aws-g5.xlarge",
        "aws-g6e.xlarge",
        "aws-p4d.24xlarge",
        "lambda-gpu_1x_a6000",
    )
)
DECISION = f"/?architecture=resnet50{COMPARED}&epochs=90&max_usd=150&max_hours=120"


@dataclass(frozen=True, slots=True)
class Picture:
    """A page as a visitor sees it, or one element of it; sizes in CSS pixels."""

    name: str
    path: str
    element: str = ""
    wait_for: str = CHART
    width: int = 1100
    height: int = 900


PICTURES = (
    Picture("forecast-light", "/", height=1250),
    Picture("guide-question", DECISION, height=1080),
    Picture("guide-curve", DECISION, element="#charts"),
    Picture(
        "guide-jump",
        "/?architecture=regnet_x_1_6gf&machine=reference-cpu&batch_sizes=1-16",
        element="#charts",
    ),
    Picture("guide-table", DECISION, element='section[aria-labelledby="table-title"]'),
    Picture("guide-machine", "/machines/aws-p4d.24xlarge/", height=1150),
)


def take(browser: Browser, site: str, picture: Picture) -> Path:
    """Save one picture; returns where it lies."""
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme="light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    page.goto(site + picture.path)
    page.wait_for_selector(picture.wait_for)
    shown = page.locator(picture.element).screenshot() if picture.element else page.screenshot()
    context.close()
    target = IMAGES / f"{picture.name}.png"
    save_small(shown, target)
    return target


def save_small(png: bytes, target: Path) -> None:
    """Write a picture with a palette, at less than half its size."""
    image = Image.open(BytesIO(png)).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)


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
                path = take(browser, site.rstrip("/"), picture)
                print(f"{path.relative_to(IMAGES.parent.parent)} {path.stat().st_size // 1024} kB")
        except Error as error:
            print(f"pictures: {site} gives no such page: {str(error).splitlines()[0]}")
            return 1
        finally:
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
