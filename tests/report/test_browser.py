"""The page in a real browser: opened from disk, no request leaves, everything that can be clicked.

Needs Chromium (Debian: `apt-get install --no-install-recommends chromium`) and playwright; where
one is absent, these tests are skipped and say so.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxrl.report.command import make_report
from tests.report.synthetic import write_study

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
playwright = pytest.importorskip(
    "playwright.sync_api", reason="THE REPORT'S PAGE IS NOT TESTED IN A BROWSER: no playwright"
)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="THE REPORT'S PAGE IS NOT TESTED IN A BROWSER: no chromium "
    "(apt-get install --no-install-recommends chromium)",
)
GAMES = ("Alien", "Amidar", "AirRaid", "Breakout", "Pong", "Qbert")
SCREENS = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("browser") / "study"
    write_study(root, games=GAMES, seeds=range(2), steps=2_000_000, period=100_000)
    return make_report(root, baselines="dopamine", resamples=100)[0]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


class Opened:
    """A page with everything that it asked for and complained about."""

    def __init__(self, browser: Any, file: Path, width: int, scheme: str) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, accept_downloads=True
        )
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("html[data-ready=yes]")

    def show(self, selector: str) -> None:
        self.page.locator(selector).first.scroll_into_view_if_needed()

    def traces(self, game: str) -> list[str]:
        """Names of what a game's plot shows, once it is drawn."""
        self.show(f'[data-curves="{game}"]')
        self.page.wait_for_selector(f'[data-curves="{game}"]:not([data-stale]) .main-svg')
        names: list[str] = self.page.evaluate(
            "game => document.querySelector(`[data-curves='${game}']`).data"
            ".filter(trace => trace.name).map(trace => trace.name)",
            game,
        )
        return names


@pytest.fixture(params=SCREENS, ids=lambda screen: f"{screen[0]}-{screen[1]}")
def opened(request: pytest.FixtureRequest, chromium: Any, page_file: Path) -> Iterator[Opened]:
    view = Opened(chromium, page_file, *request.param)
    yield view
    outside = [url for url in view.requests if not url.startswith(("file:", "data:", "blob:"))]
    assert outside == []
    assert view.errors == []
    view.context.close()


@pytest.fixture
def desktop(chromium: Any, page_file: Path) -> Iterator[Opened]:
    view = Opened(chromium, page_file, 1280, "light")
    yield view
    assert view.errors == []
    view.context.close()


def test_it_opens_draws_and_fits(opened: Opened) -> None:
    """Every figure is drawn when scrolled to, in the scheme's colours, and nothing overflows."""
    page = opened.page
    assert "DQN Pro" in page.inner_text(".summary")
    first = page.locator("[data-curves] .main-svg").count()
    for plot in page.locator("[data-plot]").all():
        plot.scroll_into_view_if_needed()
        plot.locator(".main-svg").first.wait_for()
    assert opened.traces("Qbert")
    assert page.locator("[data-curves] .main-svg").count() > first
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    light = page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0] > 128"
    )
    assert light == page.evaluate("matchMedia('(prefers-color-scheme: light)').matches")


def test_toggle_sort_and_search(opened: Opened) -> None:
    page = opened.page
    assert "DQN Pro" in opened.traces("Breakout")
    page.locator("#chips").get_by_role("button", name="DQN Pro", exact=True).click()
    assert "DQN Pro" not in opened.traces("Breakout")
    assert "Rainbow Pro" in opened.traces("Breakout")

    head = page.locator("#games-table th", has_text="DQN Pro gain").get_by_role("button")
    head.click()
    assert games(opened) == sorted(games(opened), key=gain_of(opened))
    ascending = games(opened)
    head.click()
    assert games(opened)[:-1] == ascending[:-1][::-1]
    assert games(opened)[-1] == ascending[-1] == "AirRaid"  # without a gain: last both ways

    page.fill("#game-search", "a")
    assert sorted(games(opened)) == ["AirRaid", "Alien", "Amidar", "Breakout"]
    page.fill("#game-search", "break")
    assert games(opened) == ["Breakout"]
    assert page.locator(".card:visible").count() == 1
    assert page.inner_text("#game-count") == "1 of 6 games"


def games(opened: Opened) -> list[str]:
    names: list[str] = opened.page.locator(
        "#games-table tbody tr:visible td:first-child"
    ).all_inner_texts()
    return names


def gain_of(opened: Opened) -> Any:
    heads = opened.page.locator("#games-table th").all_inner_texts()
    column = next(at for at, head in enumerate(heads) if head.startswith("DQN Pro gain"))
    gains = {}
    for row in opened.page.locator("#games-table tbody tr").all():
        cells = row.locator("td")
        sort = cells.nth(column).get_attribute("data-sort")
        gains[cells.first.inner_text()] = float(sort) if sort else float("inf")
    return gains.__getitem__


def test_metrics_bands_and_single_runs(desktop: Opened) -> None:
    page = desktop.page
    count = "document.querySelector(\"[data-curves='Pong']\").data.length"
    desktop.traces("Pong")
    assert page.evaluate(count) == 4 * 2 + 4  # lines and bands of four series, four baselines
    page.uncheck("#bands")
    assert page.evaluate(count) == 4 + 4
    page.check("#every")
    assert page.evaluate(count) == 4 * (1 + 2) + 4
    page.select_option("#metric", "sync_distance")
    assert page.evaluate(count) == 4
    page.select_option("#metric", "scaled")
    last = page.evaluate("document.querySelector(\"[data-curves='Pong']\").layout.yaxis.range[1]")
    assert last < 10  # human-normalised, no longer game points


def test_figures_give_their_data(desktop: Opened) -> None:
    for name, columns in (("aggregates", 6), ("learning_curves", 6)):
        with desktop.page.expect_download() as download:
            desktop.page.click(f"[data-csv={name}]")
        text = Path(download.value.path()).read_text()
        assert download.value.suggested_filename == f"{name}.csv"
        rows = [line.split(",") for line in text.splitlines()]
        assert rows[0] == ["panel", "series", "x", "y", "low", "high"]
        assert len(rows) > 10
        assert all(len(row) >= columns for row in rows)


def test_the_scheme_can_change_while_the_page_is_open(desktop: Opened) -> None:
    desktop.traces("Pong")
    ink = "document.querySelector(\"[data-curves='Pong']\").layout.font.color"
    before = desktop.page.evaluate(ink)
    desktop.page.emulate_media(color_scheme="dark")
    desktop.page.wait_for_function(f"{ink} !== '{before}'")


def test_tables_that_are_long_can_be_searched(desktop: Opened) -> None:
    desktop.page.fill("[data-table=claims-table]", "C61")
    visible = desktop.page.locator("#claims-table tbody tr:visible")
    assert visible.count() == 1
    assert "Proximal term lowers the distance" in visible.inner_text()
    desktop.page.fill("[data-table=runs-table]", "rainbow-pro pong")
    assert desktop.page.locator("#runs-table tbody tr:visible").count() == 2
