"""What must hold of every page of the site, as seen by a browser.

`faults` returns one sentence for each thing that is wrong with an open page.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Page

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")

# What docutils writes and axe refuses: a list whose entries are not list items but have the role
# of bibliography entries.  Readers of screens cope; no setting of Sphinx changes it.
EXCEPT = {"aria-required-children": '<div role="list" class="citation-list">'}

# Each entry is a fault and the script that finds the places where a page has it.
SCRIPTS = {
    "maths is not rendered": r"""() => {
        const bad = [...document.querySelectorAll('mjx-merror, merror, [data-mjx-error]')];
        bad.push(...[...document.querySelectorAll('.math')].filter(
            e => !e.querySelector('mjx-container')));
        const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (walk.nextNode()) {
            const inside = walk.currentNode.parentElement.closest(
                'pre, code, script, style, textarea, mjx-container');
            if (!inside && /\\[([]|\$\$|\\begin\{|\{(eq|numref|ref|glue:\w+|py:\w+)\}/.test(
                walk.currentNode.data)) bad.push(walk.currentNode.parentElement);
        }
        return bad.map(e => e.textContent.trim().slice(0, 80));
    }""",
    "the page scrolls sideways": r"""() => {
        const root = document.documentElement;
        if (root.scrollWidth <= window.innerWidth) return [];
        const clipped = e => e && e !== root && (
            getComputedStyle(e).overflowX !== 'visible' || clipped(e.parentElement));
        const wide = [...document.querySelectorAll('body *')].filter(
            e => e.getBoundingClientRect().right > window.innerWidth && !clipped(e.parentElement));
        return [`${root.scrollWidth} px wide: ` + wide.slice(0, 3).map(
            e => e.outerHTML.slice(0, 80)).join(' | ')];
    }""",
    "an image has no text that says what it shows": r"""() =>
        [...document.images].filter(i => !i.hasAttribute('alt') || (i.closest('main') &&
            (!i.alt.trim() || /\.(svg|png|jpe?g|gif)$/.test(i.alt)))).map(i => i.src)""",
    "an image is broken": r"""() =>
        [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)""",
    "a figure has no caption": r"""() =>
        [...document.querySelectorAll('article figure, article img')].filter(e => {
            const figure = e.closest('figure');
            const caption = figure && figure.querySelector('figcaption');
            return !caption || !caption.textContent.trim();
        }).map(e => e.outerHTML.slice(0, 80))""",
    "a cell wrote to the error stream or stopped with an error": r"""() =>
        [...document.querySelectorAll('.output.stderr, .output.traceback')].map(
            e => e.textContent.trim().slice(0, 80))""",
}


class Visit:
    """An open page and what went wrong while it loaded."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.heard: list[str] = []


@contextmanager
def visit(context: BrowserContext, address: str) -> Iterator[Visit]:
    """Open `address`, wait until it is drawn, and unfold what it hides."""
    home = urlsplit(address).netloc
    found = Visit(context.new_page())
    page, heard = found.page, found.heard

    def on_request(route: Any) -> None:
        host = urlsplit(route.request.url).netloc
        if host in (home, ""):
            route.continue_()
        else:
            heard.append(f"a request to another host: {route.request.url}")
            route.abort()

    page.route("**/*", on_request)
    page.on("pageerror", lambda error: heard.append(f"an error in a script: {error}"))
    page.on(
        "console",
        lambda m: heard.append(f"an error on the console: {m.text}") if m.type == "error" else None,
    )
    try:
        page.goto(address, wait_until="load")
        page.evaluate("async () => { if (window.MathJax) await MathJax.startup.promise; }")
        page.evaluate(
            """() => {
                document.querySelectorAll('details').forEach(d => { d.open = true; });
                document.querySelectorAll('.toggle-hidden').forEach(
                    e => e.classList.remove('toggle-hidden'));
                document.getAnimations().forEach(a => a.finish());  // what unfolds fades in
            }"""
        )
        yield found
    finally:
        page.close()


def faults(found: Visit) -> list[str]:
    """Say what is wrong with an open page, accessibility at the levels serious and critical."""
    page = found.page
    said = list(found.heard)
    for fault, script in SCRIPTS.items():
        said += [f"{fault}: {place}" for place in page.evaluate(script)]
    page.evaluate(AXE)
    for violation in page.evaluate("async () => (await axe.run()).violations"):
        if violation["impact"] in ("serious", "critical"):
            known = EXCEPT.get(violation["id"])
            places = [n["html"][:120] for n in violation["nodes"] if n["html"] != known]
            if places:
                said.append(f"axe {violation['id']} ({len(places)}): {' | '.join(places[:3])}")
    return said
