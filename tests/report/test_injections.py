"""Run folders written by someone else: whatever their texts contain, the page shows them as text.

Each injection is in a place from which the page, a figure or a file name takes text. In real
Chromium nothing is executed or requested, and the page keeps its structure.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from proxrl.report.command import make_report
from tests.report.synthetic import preset, write_run

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
playwright = pytest.importorskip(
    "playwright.sync_api", reason="THE REPORT'S PAGE IS NOT TESTED IN A BROWSER: no playwright"
)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="THE REPORT'S PAGE IS NOT TESTED IN A BROWSER: no chromium"
)
RUN = "window.hit = (window.hit || 0) + 1"
IMAGE = f'<img src=x onerror="{RUN}">'
SCRIPT = f"</script><script>{RUN}</script>"
# place of the text -> the text
INJECTIONS = {
    "an agent that is a placeholder": ("agent", "{{data}}"),
    "an agent that is a template": ("agent", "{{ cycler.__init__.__globals__ }}{% raw %}"),
    "an agent that ends the script": ("agent", SCRIPT),
    "an agent with an image": ("agent", IMAGE),
    "an agent that leaves its folder": ("agent", "../../../escaped"),
    "an agent that is mathematics": ("agent", r"$\frac{a}{0}$ $x_{$"),
    "an environment with an image": ("env", f"Cart{IMAGE}Pole-v1"),
    "an environment that leaves its attribute": ("env", f'" onmouseover="{RUN}" autofocus x="-v1'),
    "a setting that ends the data": ("setting", f"<!--<script>{SCRIPT}"),
    "a title that ends the title": ("title", f"</title>{IMAGE}</h1>`<svg onload={RUN}>`"),
    "figures that are a link": ("figures", f'javascript:{RUN}" href="javascript:{RUN}'),
    "an error that is markup": ("failure", f"<svg/onload={RUN}><style>*{{display:none}}</style>"),
    "a folder with markup": ("folder", f"<iframe srcdoc='<script>parent.{RUN}<script>'>&lt;"),
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


def infected(root: Path, where: str, text: str, steps: int = 3000) -> None:
    """Four runs, two agents and seeds, with the text in the given place."""
    for number, agent in enumerate(("dqn", "dqn-pro")):
        for seed in (0, 1):
            settings: dict[str, Any] = {"evaluation.period_steps": 1000}
            config = preset(agent, "CartPole-v1", settings, steps=steps, seed=seed)
            if where == "agent" and number:
                config = config.override({"agent": text})
            if where == "env":
                config = config.override({"env": text})
            if where == "setting" and number:
                config = config.override({"network.kind": text})
            name = f"{agent}{seed}"
            if where == "folder" and number:
                name = text.replace("/", "∕") + str(seed)
            run = write_run(root / name, config, lambda step, seed=seed: [step / 100 + seed, 5.0])
            if where == "failure" and number:
                (run / "failure.txt").write_text(text)
                lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
                (run / "metrics.jsonl").write_text("".join(lines[:2]))
    if where in ("title", "figures"):
        (root / "study.json").write_text(json.dumps({"title": "A title", where: text}))


@pytest.mark.parametrize("name", INJECTIONS)
def test_text_stays_text(name: str, tmp_path: Path, chromium: Any) -> None:
    where, text = INJECTIONS[name]
    root = tmp_path / "a" / "b" / "c" / "study"
    infected(root, where, text)
    file, _ = make_report(root, resamples=20)
    made = {path.relative_to(tmp_path).parts[:4] for path in tmp_path.rglob("*") if path.is_file()}
    assert made == {("a", "b", "c", "study")}

    with opened(file, chromium) as page:
        page.locator("[data-game]").first.scroll_into_view_if_needed()
        page.wait_for_selector("[data-game][data-drawn]")
        for element in page.locator("#chips button, th button").all():
            element.hover()
        structure = structure_of(page)
        shown = page.evaluate("document.documentElement.textContent")
    assert structure == {"scripts": 2, "styles": 1, "foreign": 0, "handlers": 0, "links": []}
    expected = text.replace("/", "∕") if where == "folder" else text.split("`")[0]
    assert expected in shown


FIRST_OF_A_PLACE = {where: name for name, (where, _) in reversed(INJECTIONS.items())}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=() if one in FIRST_OF_A_PLACE.values() else pytest.mark.faults)
        for one in INJECTIONS
    ],
)
def test_text_stays_text_in_an_overview(name: str, tmp_path: Path, chromium: Any) -> None:
    """Runs of two lengths: a page for each, and one that links them."""
    where, text = INJECTIONS[name]
    root = tmp_path / "a" / "b" / "c" / "study"
    for steps in (2000, 3000):
        infected(root / str(steps), where, text, steps)
    file, _ = make_report(root, resamples=20)
    with opened(file, chromium) as page:
        structure = structure_of(page)
    linked = {(file.parent / href).resolve() for href in structure.pop("links")}
    assert structure == {"scripts": 0, "styles": 1, "foreign": 0, "handlers": 0}
    assert len(linked) >= 4, "the page and the scores of each section"
    for path in linked:
        assert path.is_file()
        assert path.is_relative_to(file.parent)


@contextmanager
def opened(file: Path, chromium: Any) -> Iterator[Any]:
    """The page in a browser of its own. Afterwards: nothing was executed, requested or reported."""
    context = chromium.new_context()
    page = context.new_page()
    requests: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.on("dialog", lambda dialog: errors.append(dialog.message))
    page.goto(file.as_uri())
    if page.evaluate("document.scripts.length"):
        page.wait_for_selector("html[data-ready=yes]")
    yield page
    assert page.evaluate("window.hit") is None
    assert errors == []
    assert [url for url in requests if url != file.as_uri() and not url.startswith("data:")] == []
    context.close()


def structure_of(page: Any) -> dict[str, Any]:
    """What a page would have more of if a text were markup; links that are not the page's own."""
    found: dict[str, Any] = page.evaluate(
        """() => ({
        scripts: document.scripts.length,
        styles: document.styleSheets.length,
        foreign: document.querySelectorAll("img, iframe, object, embed, form, base").length,
        handlers: [...document.querySelectorAll("*")].filter((one) =>
            [...one.attributes].some((a) => a.name.startsWith("on"))).length,
        links: [...document.links].map((a) => a.getAttribute("href"))
            .filter((href) => !/^(#[\\w~-]+|figures\\/[\\w~-]+\\.\\w{3})$/.test(href))
            .filter((href) => !["scores.csv", "comparisons.csv"].includes(href)),
        })"""
    )
    return found


def test_the_policy_refuses_what_escaping_would_miss(tmp_path: Path, chromium: Any) -> None:
    """Even an injected script would not run: checked on a page with a script inserted."""
    root = tmp_path / "study"
    infected(root, "agent", "plain")
    file, _ = make_report(root, resamples=20)
    text = file.read_text()
    bad = f"<script>{RUN}</script>{IMAGE}<img src=https://example.invalid/x><p style='color:red'>"
    file.write_text(text.replace("<main>", f"<main>{bad}"))
    context = chromium.new_context()
    page = context.new_page()
    answered: list[str] = []
    refused: list[str] = []
    page.on("requestfinished", lambda request: answered.append(request.url))
    page.on("requestfailed", lambda request: refused.append(f"{request.url} {request.failure}"))
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    assert page.evaluate("window.hit") is None
    assert answered == [file.as_uri()]
    assert "https://example.invalid/x csp" in refused
    assert "unsafe" not in text.split("<style>")[0]
    context.close()
