"""Notebooks as pages: executed from the command line, converted by hooks.py when the site is built.

    python docs/tools/notebooks.py            # execute all and store their outputs

The notebooks are stored with their (small) outputs, so that the site is built without executing
them; `tests/docs/test_notebooks.py` executes them and compares.
"""

import base64
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def executed(path: Path, shorter: Mapping[str, str] | None = None) -> Any:
    """The notebook with new outputs; raises if a cell does.

    `shorter` replaces parts of its code, each of which must be there once.
    """
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    for long, short in (shorter or {}).items():
        (cell,) = [one for one in notebook.cells if long in one.source]
        cell.source = cell.source.replace(long, short)
    NotebookClient(notebook, timeout=None, kernel_name="python3", record_timing=False).execute(
        cwd=str(path.parent)
    )
    for cell in notebook.cells:
        cell.metadata.clear()
        for output in cell.get("outputs", []):
            output.get("metadata", {}).clear()
            if "image/png" in output.get("data", {}):
                output.data.pop("text/plain", None)  # <Figure size ...>
    return notebook


def as_markdown(notebook: Any, name: str) -> tuple[str, dict[str, bytes]]:
    """The page, and its images by file name."""
    parts, images = [], {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            data = output.get("data", {})
            if "image/png" in data:
                image = f"{name}-{len(images) + 1}.png"
                images[image] = base64.b64decode(data["image/png"])
                parts.append(f"![output of the cell above]({image})")
            else:
                text = output.get("text") or data.get("text/plain", "")
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n", images


def main() -> None:
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        nbformat.write(executed(path), path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    sys.exit(main())
