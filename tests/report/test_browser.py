"""The page in a real browser: opened from disk, no requests, all controls.

Needs Chromium (Debian: `apt-get install --no-install-recommends chromium`) and playwright; without
them, these tests are skipped.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxrl.report.command import make_report
from tests.report.synthetic import preset, write_run, write_study

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
GAMES_ON_PAGE = sorted(GAMES)
BRIGHTNESS = """selector => [...document.querySelectorAll(selector)].map((one) =>
    Math.max(...getComputedStyle(one).fill.match(/[0-9]+/g).map(Number)))"""
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
    """A page with all its requests and console messages."""

    def __init__(
        self,
        browser: Any,
        file: Path,
        width: int,
        scheme: str,
        ready: str = "html[data-ready=yes]",
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, accept_downloads=True
        )
        self.page = self.context.new_page()
        self.file = file
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector(ready)

    def show(self, selector: str) -> None:
        self.page.locator(selector).first.scroll_into_view_if_needed()

    def place(self, game: str) -> str:
        return f'[data-game="{GAMES_ON_PAGE.index(game)}"]'

    def names(self, game: str) -> list[str]:
        """Names of the series in a game's curves, once drawn."""
        self.show(self.place(game))
        self.page.wait_for_selector(self.place(game) + "[data-drawn]")
        names: list[str] = self.page.evaluate(
            "selector => [...document.querySelectorAll(selector)].map((one) => one.dataset.series)",
            f"{self.place(game)} .mean",
        )
        return names

    def count(self, game: str, kind: str) -> int:
        self.names(game)
        return int(self.page.locator(f"{self.place(game)} .{kind}").count())


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
    """Figures are shown at once, curves when scrolled to; nothing overflows or violates the page's
    own policy (violations are errors on the console)."""
    page = opened.page
    assert "DQN Pro" in page.inner_text(".summary strong")
    assert page.locator(".plot svg").count() == 9
    for figure in page.locator(".plot svg").all():
        box = figure.bounding_box()
        assert box is not None
        assert box["width"] > 250
        assert box["height"] > 60
    assert opened.names("Qbert")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    light = page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0] > 128"
    )
    assert light == page.evaluate("matchMedia('(prefers-color-scheme: light)').matches")


def test_figures_take_the_colours_of_the_scheme(opened: Opened) -> None:
    """Text and background of every SVG have the contrast of the page."""
    light = opened.page.evaluate("matchMedia('(prefers-color-scheme: light)').matches")
    text = opened.page.evaluate(BRIGHTNESS, ".plot svg text")
    ground = opened.page.evaluate(BRIGHTNESS, ".plot svg > g > g:first-child > path")
    assert len(ground) == 9
    assert all(value < 130 for value in (text if light else ground))
    assert all(value > 160 for value in (ground if light else text))


def test_no_text_of_a_figure_lies_over_another_or_is_cut(opened: Opened) -> None:
    """Titles, ticks and legends: no two boxes of one SVG overlap by more than their padding, and
    all are inside it."""
    assert clashes(opened) == []
    cut = opened.page.evaluate(
        """() => [...document.querySelectorAll(".plot svg")].flatMap((svg) => {
        const outer = svg.getBoundingClientRect();
        return [...svg.querySelectorAll("text")].filter((one) => {
            const box = one.getBoundingClientRect();
            return box.left < outer.left - 1 || box.right > outer.right + 1 ||
                box.top < outer.top - 2 || box.bottom > outer.bottom + 2;
        }).map((one) => one.textContent);
        })"""
    )
    assert cut == []


def clashes(opened: Opened) -> list[str]:
    found: list[str] = opened.page.evaluate(
        """() => [...document.querySelectorAll(".plot svg")].flatMap((svg) => {
        const box = (one) => [one.textContent, one.getBoundingClientRect()];
        const all = [...svg.querySelectorAll("text")].map(box);
        return all.flatMap(([a, p], i) => all.slice(i + 1).filter(([, q]) =>
            Math.min(p.right, q.right) - Math.max(p.left, q.left) > 2 &&
            Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 4
        ).map(([b]) => `${a} / ${b}`));
        })"""
    )
    return found


def test_toggle_sort_and_search(opened: Opened) -> None:
    page = opened.page
    assert "DQN Pro" in opened.names("Breakout")
    page.locator("#chips").get_by_role("button", name="DQN Pro", exact=True).click()
    assert "DQN Pro" not in opened.names("Breakout")
    assert "Rainbow Pro" in opened.names("Breakout")

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
    kinds = ("mean", "band", "run")
    assert [desktop.count("Pong", kind) for kind in kinds] == [9, 9, 0]
    page.uncheck("#bands")
    assert [desktop.count("Pong", kind) for kind in kinds] == [9, 0, 0]
    page.check("#every")
    assert [desktop.count("Pong", kind) for kind in kinds] == [9, 0, 8]  # two seeds each
    page.select_option("#metric", "sync_distance")
    assert [desktop.count("Pong", kind) for kind in kinds] == [4, 0, 0]
    page.select_option("#metric", "scaled")
    assert highest(desktop, "Qbert") < 30  # human-normalised
    page.select_option("#metric", "eval_return")
    assert highest(desktop, "Qbert") > 1000  # game points


def highest(opened: Opened, game: str) -> float:
    """The largest tick label of the y axis."""
    opened.names(game)
    ticks = opened.page.locator(opened.place(game) + " .tick[text-anchor=end]").all_text_contents()
    return max(float(tick.replace(",", "").replace("−", "-").replace("k", "e3")) for tick in ticks)


def test_what_is_drawn_is_what_was_recorded(desktop: Opened) -> None:
    """Packed curves are accurate to a thousandth of their range; hovering shows the values."""
    desktop.names("Pong")
    row = next(
        line.split(",")
        for line in (desktop.file.parent / "figures" / "learning_curves.csv")
        .read_text()
        .split("\n")
        if line.startswith("Pong,DQN Pro,8e+06,")
    )
    svg = desktop.page.locator(desktop.place("Pong") + " svg")
    box = svg.bounding_box()
    svg.hover(position={"x": box["width"] - 12, "y": 60})
    said = desktop.page.inner_text(desktop.place("Pong") + " .hover")
    value = float(said.split("DQN Pro: ")[1].split(" ")[0].replace("−", "-"))
    assert said.startswith("8M emulator frames")
    assert value == pytest.approx(float(row[3]), rel=0.01)


def test_a_run_with_one_evaluation_is_a_point(chromium: Any, tmp_path: Path) -> None:
    write_study(tmp_path / "s", ("Breakout",), ("dqn",), range(1), steps=100_000, period=100_000)
    page = make_report(tmp_path / "s", resamples=20)[0]
    view = Opened(chromium, page, 390, "light")
    view.page.wait_for_selector("[data-game][data-drawn]")
    assert view.page.locator("[data-game] .point").count() == 1
    svg = (page.parent / "figures" / "learning_curves.svg").read_text()
    assert "<use " in svg.split("DQN")[0]  # a marker within the axes
    view.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_overview_of_several_sections_opens_and_leads_to_them(
    chromium: Any, sections_file: Path, width: int, scheme: str
) -> None:
    """It has no script: tables without buttons, one figure per section, in the scheme's colours."""
    view = Opened(chromium, sections_file, width, scheme, ready="footer")
    page = view.page
    assert page.locator("main > section h2").all_inner_texts() == [
        "CartPole-v1",
        "MinAtar Breakout",
        "Protocols",
    ]
    assert page.locator(".plot svg").count() == 2
    assert clashes(view) == []
    assert page.locator("button").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ground = page.evaluate(BRIGHTNESS, ".plot svg > g > g:first-child > path")
    assert all((value > 160) == (scheme == "light") for value in ground)
    page.locator("h2 a", has_text="CartPole-v1").click()
    page.wait_for_selector("html[data-ready=yes]")
    assert "DQN Pro" in page.inner_text(".summary strong")
    assert page.locator("#bands, #every").count() == 0  # one seed: neither bands nor single runs
    page.locator("nav a", has_text="All sections").click()
    page.wait_for_selector("h2:has-text('Protocols')")
    assert view.errors == []
    view.context.close()


@pytest.fixture(scope="module")
def sections_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sections, of one seed."""
    root = tmp_path_factory.mktemp("sections") / "runs"
    for env in ("CartPole-v1", "MinAtar/Breakout-v1"):
        for agent in ("dqn", "dqn-pro"):
            config = preset(agent, env, {"evaluation.period_steps": 1000}, steps=4000)
            write_run(root / env / agent, config, lambda step: [step / 100.0] * 10)
    return make_report(root, resamples=20)[0]


@pytest.mark.parametrize("width", [1280, 800, 700])
def test_a_game_is_shown_below_the_toolbar(chromium: Any, page_file: Path, width: int) -> None:
    """With nine series the toolbar has two to five rows."""
    view = Opened(chromium, page_file, width, "light")
    view.page.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
    view.page.locator("#games-table a", has_text="Breakout").click()
    view.page.wait_for_selector(view.place("Breakout") + "[data-drawn]")
    bar, title = view.page.evaluate(
        """() => [document.querySelector(".toolbar").getBoundingClientRect().bottom,
        document.querySelector("#game-3 h3").getBoundingClientRect().top]"""
    )
    assert bar <= title
    view.context.close()


def test_figures_give_their_data(desktop: Opened) -> None:
    for name in ("aggregates", "learning_curves"):
        link = desktop.page.locator(f'a[href="figures/{name}.csv"]')
        assert link.count() == 1
        text = (desktop.file.parent / link.get_attribute("href")).read_text()
        rows = [line.split(",") for line in text.splitlines()]
        assert rows[0] == ["panel", "series", "x", "y", "low", "high"]
        assert len(rows) > 10
        assert all(len(row) >= 6 for row in rows)


def test_the_scheme_can_change_while_the_page_is_open(desktop: Opened) -> None:
    desktop.names("Pong")
    first = desktop.place("Pong") + " .mean"
    assert desktop.page.locator(first).first.get_attribute("stroke") == "#2b6cb0"
    desktop.page.emulate_media(color_scheme="dark")
    desktop.page.wait_for_selector(f'{first}[stroke="#6cb2f5"]')


def test_tables_that_are_long_can_be_searched(desktop: Opened) -> None:
    desktop.page.fill("[data-table=claims-table]", "C61")
    visible = desktop.page.locator("#claims-table tbody tr:visible")
    assert visible.count() == 1
    assert "Proximal term lowers the distance" in visible.inner_text()
    desktop.page.fill("[data-table=runs-table]", "rainbow-pro pong")
    assert desktop.page.locator("#runs-table tbody tr:visible").count() == 2
