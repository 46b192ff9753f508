"""Redraw the pictures of README and docs from run folders.

make demo
python docs/tools/pictures.py runs/demo-session

demo.png                 learning curve and target updates of the demo
report.png               the top of the page of results/main-session, in Chromium (playwright)
main-session.png,
distance-session.png     figures of the reports of results/main-session and distance-session
"""

import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from proxrl.report.command import make_report

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "figures"


def main(demo: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        page = make_report(demo, Path(place) / "demo")[0]
        side_by_side(
            [
                page.parent / "figures" / name
                for name in ("learning_curves.png", "sync_distances.png")
            ],
            FIGURES / "demo.png",
        )
        page = make_report(ROOT / "results" / "main-session", Path(place) / "main")[0]
        shutil.copy(page.parent / "figures" / "learning_curves.png", FIGURES / "main-session.png")
        screenshot(page, FIGURES / "report.png")
        page = make_report(ROOT / "results" / "distance-session", Path(place) / "distance")[0]
        shutil.copy(
            page.parent / "figures" / "sync_distances.png", FIGURES / "distance-session.png"
        )


def side_by_side(files: list[Path], out: Path) -> None:
    pictures = [Image.open(file).convert("RGB") for file in files]
    size = sum(one.width for one in pictures), max(one.height for one in pictures)
    both = Image.new("RGB", size, "white")
    for at, one in enumerate(pictures):
        both.paste(one, (sum(before.width for before in pictures[:at]), size[1] - one.height))
    both.save(out, optimize=True)


def screenshot(page: Path, out: Path) -> None:
    """The top of a page."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium)
        view = browser.new_page(viewport={"width": 1180, "height": 900})
        view.goto(page.as_uri())
        view.wait_for_selector("[data-game='0'][data-drawn]")
        view.screenshot(path=out)
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/tools/pictures.py runs/demo-session")
    main(Path(sys.argv[1]))
