"""The notebooks run, and what is stored in them is what they print."""

from pathlib import Path

import pytest

from tests.docs.tools import tool

nbformat = pytest.importorskip("nbformat", reason="needs the extra `docs`")
pytest.importorskip("nbclient", reason="needs the extra `docs`")
pytest.importorskip("ipykernel", reason="needs the extra `docs`")

notebooks = tool("notebooks")


@pytest.mark.parametrize(
    ("name", "shorter"),
    [
        ("drop-in", {"model.learn(6_000": "model.learn(600"}),
        pytest.param("drop-in", {}, marks=pytest.mark.slow),
        ("pmpi", {}),
    ],
)
def test_a_notebook_runs_and_its_stored_outputs_are_current(
    name: str, shorter: dict[str, str]
) -> None:
    """Same kinds of outputs; planning also prints the same numbers everywhere."""
    pytest.importorskip("stable_baselines3")
    path = notebooks.NOTEBOOKS / f"{name}.ipynb"
    stored, now = nbformat.read(path, as_version=4), notebooks.executed(path, shorter)
    for before, after in zip(stored.cells, now.cells, strict=True):
        kinds = [one.output_type for one in before.get("outputs", [])]
        assert [one.output_type for one in after.get("outputs", [])] == kinds
        if name == "pmpi":
            texts = [one.get("text") for one in before.get("outputs", [])]
            assert [one.get("text") for one in after.get("outputs", [])] == texts


def test_a_notebook_becomes_a_page_with_its_pictures() -> None:
    notebook = nbformat.read(notebooks.NOTEBOOKS / "pmpi.ipynb", as_version=4)
    text, images = notebooks.as_markdown(notebook, "pmpi")
    assert text.startswith("# PMPI in pictures")
    assert len(images) == 5
    assert all(
        image.startswith(b"\x89PNG") and f"({name})" in text for name, image in images.items()
    )


def test_the_site_check_finds_broken_links_and_files_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="top">a</h1><a href="b.html#there">b</a><a href="https://example.org">fine</a>'
    )
    (tmp_path / "b.html").write_text('<p id="there">b</p><a href="a.html#top">a</a>')
    check = tool("check_site")
    assert check.problems(tmp_path) == []
    (tmp_path / "c.html").write_text(
        '<a href="gone.html">x</a><a href="b.html#gone">y</a><script src="https://cdn/x.js"></script>'
    )
    assert check.problems(tmp_path) == [
        "c.html: loads https://cdn/x.js",
        "c.html: no file for gone.html",
        "c.html: no anchor for b.html#gone",
    ]
