"""Checks the built site: `python docs/tools/check_site.py site`.

Every link and image inside the site leads to a file that exists, with the anchor if there is one;
and nothing is loaded from elsewhere, so that the site works offline.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {("script", "src"), ("img", "src"), ("source", "src"), ("iframe", "src"), ("use", "href")}
NAMED = {"stylesheet", "icon", "preload", "preconnect", "dns-prefetch"}  # rel of <link>
ELSEWHERE = ("http:", "https:", "//")


class Page(HTMLParser):
    """The anchors, links and loaded files of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and NAMED & set(values.get("rel", "").split()):
            self.loads.append(values["href"])
        self.loads += [values[name] for of, name in LOADS if of == tag and name in values]


def problems(site: Path) -> list[str]:
    """One line each."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links are absolute
        where = path.relative_to(site.resolve())
        found += [f"{where}: loads {one}" for one in page.loads if one.startswith(ELSEWHERE)]
        for link in (*page.links, *page.loads):
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                found.append(f"{where}: no file for {link}")
            elif parts.fragment and target in pages:
                anchor = unquote(parts.fragment)
                if anchor not in pages[target].anchors and anchor != "__skip":
                    found.append(f"{where}: no anchor for {link}")
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        if "url(http" in text or "@import" in text:
            found.append(f"{style.relative_to(site)}: loads from elsewhere")
    return found


def main() -> None:
    site = Path(sys.argv[1])
    found = problems(site)
    for line in found:
        print(line)
    count = len(list(site.rglob("*.html")))
    print(f"{count} pages, {len(found)} broken links or files from elsewhere")
    sys.exit(bool(found) or not count)


if __name__ == "__main__":
    main()
