"""mkdocs hooks: pages that are made from other files of the repository, without copies of them.

    docs/notebooks/NAME.ipynb    ->  notebooks/NAME.md, with the stored outputs
    examples/NAME.py             ->  examples/NAME.md
    CHANGELOG.md                 ->  changelog.md

`evidence.md` is in the navigation only if it exists. Links to the repository's other files become
text: the site does not have them.
"""

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

TOOLS = Path(__file__).parent
ROOT = TOOLS.parents[1]
sys.path.insert(0, str(TOOLS))

import nbformat  # noqa: E402
import notebooks  # noqa: E402

OPTIONAL = "evidence.md"


def on_config(config: Any) -> Any:
    if not (ROOT / "docs" / OPTIONAL).exists():
        config.nav = _without(config.nav, OPTIONAL)
    return config


def _without(nav: Any, page: str) -> Any:
    """The navigation without the entries of a page."""
    if isinstance(nav, list):
        return [_without(one, page) for one in nav if page not in _targets(one)]
    return (
        {name: _without(one, page) for name, one in nav.items()} if isinstance(nav, dict) else nav
    )


def _targets(entry: Any) -> list[Any]:
    return list(entry.values()) if isinstance(entry, dict) else [entry]


def on_files(files: Files, config: Any) -> Files:
    for path in sorted(notebooks.NOTEBOOKS.glob("*.ipynb")):
        text, images = notebooks.as_markdown(nbformat.read(path, as_version=4), path.stem)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, image in images.items():
            files.append(File.generated(config, f"notebooks/{name}", content=image))
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = f"# {path.name}\n\n```python\n{path.read_text(encoding='utf-8')}```\n"
        files.append(File.generated(config, f"examples/{path.stem}.md", content=text))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "changelog.md", content=changelog))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    markdown = re.sub(r"\]\((?:\.\./)?examples/(\w+)\.py\)", r"](examples/\1.md)", markdown)
    return re.sub(r"\[([^\]]+)\]\(\.\./(?!\w+[\w/-]*\.md)[^)]*\)", r"\1", markdown)
