"""What the pages of reports and searches share: templates, style sheet and security policy.

A page is one self-contained file. Names in it come from files that others may have written: Jinja2
escapes them, and a Content-Security-Policy allows only the page's own style sheet and script, by
hash.
"""

import base64
import hashlib
from collections.abc import Iterable
from functools import cache

import jinja2
from markupsafe import Markup, escape

from proxrl.report.figures.drawing import INK, MUTED, PAPER, RULE

FIXED_COLOURS = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    RULE: "var(--rule)",
    PAPER: "var(--card)",
}


def render_page(
    template: str,
    colours: Iterable[tuple[str, str]],
    package: str = "proxrl.report",
    script: str | None = None,
    own_style: str = "",
    **values: object,
) -> str:
    """A template of `package` with the shared style sheet; `colours`: each colour of the figures
    with the one that replaces it in dark mode."""
    style = Markup(asset("page.css") + own_style + _dark_rules(colours))
    code = None if script is None else Markup(asset(script))
    return (
        environment(package)
        .get_template(template)
        .render(policy=_policy(style, code), style=style, script=code, **values)
    )


@cache
def environment(package: str = "proxrl.report") -> jinja2.Environment:
    """Templates of a package, and those of reports."""
    packages = dict.fromkeys((package, "proxrl.report"))
    found = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(one, "assets") for one in packages]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["code"] = _code
    return found


def asset(name: str) -> str:
    loader = environment().loader
    assert loader is not None
    return loader.get_source(environment(), name)[0]


def _code(text: str) -> Markup:
    """Escape text and turn `code` into a code element."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # unbalanced backticks stay as they are
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part)
        for at, part in enumerate(parts)
    )


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _policy(style: str, script: str | None) -> str:
    """The Content-Security-Policy of a page: this style sheet and this script only."""
    scripts = f"script-src '{_hash(script)}'; " if script is not None else ""
    return (
        f"default-src 'none'; {scripts}style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _dark_rules(colours: Iterable[tuple[str, str]]) -> str:
    """CSS rules that recolour the figures in dark mode."""
    pairs = dict.fromkeys((*FIXED_COLOURS.items(), *colours))
    rules = "".join(
        f'.plot [{what}="{light}"]{{{what}:{dark}}}'
        for light, dark in pairs
        for what in ("fill", "stroke")
    )
    return f"@media (prefers-color-scheme:dark){{{rules}}}\n"
