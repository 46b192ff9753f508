"""Redraws the pictures of README and docs from run folders.

    python docs/tools/pictures.py                             # figures of reports on results/
    python docs/tools/pictures.py --demo runs/demo-session    # after `make demo`: also those below

demo.png                 learning curve and target updates of the demo
report.png               the top of the page of results/main-session, in Chromium (playwright)
"""

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from proxrl.report.command import make_report

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "figures"
OF_RESULTS = {  # the folders of a report on results/, and its figures by their names in docs
    ("main-session",): {"main-session": "learning_curves"},
    ("distance-session",): {"distance-session": "sync_distances"},
    ("dopamine-check-session",): {"dopamine-check": "training_returns"},
    ("dopamine-check-extended",): {"dopamine-check-extended": "training_returns"},
    ("rules-tune",): {"rules-tune": "differences"},
    ("rules-laptop",): {"rules-laptop": "differences", "rules-laptop-curves": "learning_curves"},
    ("rainbow-kappa-session",): {"rainbow-session": "learning_curves"},
    **{  # the ablations
        (f"{name}-session",): {f"{name}-session": "learning_curves"}
        for name in ("period", "polyak", "anneal", "value-space", "larger-c")
    },
}


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--demo", type=Path, help="the folder of a finished demo")
    return parser.parse_args(argv)


def draw_results(place: Path) -> None:
    for folders, figures in OF_RESULTS.items():
        page, _ = make_report(
            [ROOT / "results" / name for name in folders],
            place / folders[0],
            baselines="dopamine" if folders[0].startswith("dopamine") else None,
        )
        for name, figure in figures.items():
            shutil.copy(page.parent / "figures" / f"{figure}.png", FIGURES / f"{name}.png")


def draw_demo(demo: Path, place: Path) -> None:
    page = make_report(demo, place / "demo")[0]
    drawn = [
        page.parent / "figures" / f"{name}.png" for name in ("learning_curves", "sync_distances")
    ]
    side_by_side(drawn, FIGURES / "demo.png")


def side_by_side(files: Sequence[Path], out: Path) -> None:
    pictures = [Image.open(file).convert("RGB") for file in files]
    size = sum(one.width for one in pictures), max(one.height for one in pictures)
    both = Image.new("RGB", size, "white")
    for at, one in enumerate(pictures):
        both.paste(one, (sum(before.width for before in pictures[:at]), size[1] - one.height))
    both.save(out, optimize=True)


def screenshot(page: Path, out: Path) -> None:
    """The top of a page."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium)
        view = browser.new_page(viewport={"width": 1180, "height": 900})
        view.goto(page.as_uri())
        view.wait_for_selector("[data-game='0'][data-drawn]")
        view.screenshot(path=out)
        browser.close()


def main(demo: Path | None) -> None:
    with tempfile.TemporaryDirectory() as place:
        draw_results(Path(place))
        if demo is not None:
            draw_demo(demo, Path(place))
            screenshot(Path(place) / "main-session" / "index.html", FIGURES / "report.png")


if __name__ == "__main__":
    main(arguments().demo)
