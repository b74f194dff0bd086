"""What must hold of every page of the site, as seen by a browser.

`faults` returns one sentence for each thing that is wrong with an open page.
"""

import os
from collections import Counter
from contextlib import contextmanager
from importlib.resources import files
from urllib.parse import urlsplit

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
    "the caption of a table is cut off": r"""() => {
        const box = e => getComputedStyle(e).overflowX === 'visible' && e.parentElement
            ? box(e.parentElement) : e;
        return [...document.querySelectorAll('article caption')].filter(
            e => e.offsetWidth > box(e.closest('table')).clientWidth + 1).map(
            e => e.textContent.trim().slice(0, 80));
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

#: Whether to look at both widths and themes, and by axe: weekly, with `make test-site THOROUGH=1`.
THOROUGH = bool(os.environ.get("THOROUGH"))

# The rules of axe that depend on the theme; those that do not are asked once for each width.
OF_COLOURS = ["color-contrast", "link-in-text-block"]
AXE_RUN = """async ([rules, enabled, whole]) => {
    const chosen = Object.fromEntries(rules.map(rule => [rule, {enabled: false}]));
    const where = enabled ? {include: ['[data-like-no-other]']} : document;
    // Half of a page's elements are within drawn maths, and of its colours none is looked at.
    const drawn = whole ? [] : [...document.querySelectorAll('mjx-container')].map(
        e => [e, [...e.childNodes]]);
    drawn.forEach(([e]) => e.replaceChildren());
    const found = await axe.run(where, {
        preload: false,  // style sheets and films, which no rule at these levels asks for
        ...(enabled
            ? {runOnly: rules, resultTypes: ['violations', 'passes'], elementRef: true}
            : {rules: chosen, resultTypes: ['violations']})});
    drawn.forEach(([e, inside]) => e.replaceChildren(...inside));
    const key = element => element?.getAttribute('data-like-no-other');
    const keys = rules => rules.flatMap(r => r.nodes).map(n => key(n.element)).filter(x => x);
    const passed = keys(found.passes.filter(p => p.id === 'color-contrast'));
    const faint = keys(found.violations);
    const undecided = !enabled ? [] : [...document.querySelectorAll('[data-like-no-other]')]
        .map(key).filter(x => !passed.includes(x) && !faint.includes(x));
    const violations = found.violations.map(v => ({id: v.id, impact: v.impact,
        nodes: v.nodes.map(n => n.html)}));
    return {passed, undecided, violations};
}"""

# Contrasts take most of axe's time, and the pages repeat few of them.  Mark one of all texts that
# have the same colours, size and weight on the same backgrounds, unless such a text has passed.
# (axe judges no text that is hidden or a single sign.)
LIKE_NO_OTHER = r"""(passed) => {
    const behind = new Map([[null, '']]), chosen = new Map(), known = new Set(passed);
    for (const e of document.querySelectorAll('*')) {
        e.removeAttribute('data-like-no-other');
        const s = getComputedStyle(e);
        const own = String([s.backgroundColor, s.backgroundImage, s.opacity, s.filter]);
        const above = behind.get(e.parentElement) ?? '';
        const all = own === 'rgba(0, 0, 0, 0),none,1,none' ? above : above + '|' + own;
        behind.set(e, all);
        if (![...e.childNodes].some(c => c.nodeType === 3 && c.data.trim().length > 1)) continue;
        if (!e.checkVisibility({checkOpacity: true, checkVisibilityCSS: true})) continue;
        // maths is drawn in the colour of the text around it
        const at = e.getBoundingClientRect();
        if (e.closest('mjx-container') || at.right < 0 || at.bottom + scrollY < 0) continue;
        const link = e.closest('a'), around = link && getComputedStyle(link.parentElement).color;
        const key = String([all, s.color, s.fontSize, s.fontWeight, s.textShadow,
            s.textDecorationLine, around]);
        const inside = e.getElementsByTagName('*').length;
        if (!known.has(key) && !(chosen.get(key)?.inside <= inside)) chosen.set(key, {e, inside});
    }
    for (const [key, {e}] of chosen) e.setAttribute('data-like-no-other', key);
    return chosen.size;
}"""
# Scripts of the page have heard of its new width, and colours have faded to those of the theme.
SETTLED = """async (resized) => {
    for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
    if (resized) await new Promise(wake => setTimeout(wake, 500));
    document.getAnimations().forEach(a => a.finish());
}"""


class Looked:
    """What is known of texts of the same colours, size and weight on the same backgrounds."""

    #: How often axe may leave one undecided, such as text on a picture, until it is asked no more.
    TIMES = 3

    def __init__(self):
        self.passed = set()
        self.undecided = Counter()

    def known(self):
        """Those that need not be looked at again."""
        return [*self.passed, *(k for k, n in self.undecided.items() if n >= self.TIMES)]

    def note(self, passed, undecided):
        """Note what axe has passed and what it has left undecided."""
        self.passed.update(passed)
        self.undecided.update(undecided)


class Visit:
    """An open page and what went wrong while it loaded."""

    def __init__(self, page):
        self.page = page
        self.heard = []


@contextmanager
def visit(context, address, first=lambda page: None):
    """Open `address`, wait until it is drawn, call `first`, and unfold what the page hides."""
    home = urlsplit(address).netloc
    visited = Visit(context.new_page())
    page, heard = visited.page, visited.heard

    def on_request(request):
        if urlsplit(request.url).netloc not in (home, ""):
            heard.append(f"a request to another host: {request.url}")

    page.on("request", on_request)
    page.on("pageerror", lambda error: heard.append(f"an error in a script: {error}"))
    page.on(
        "console",
        lambda m: heard.append(f"an error on the console: {m.text}") if m.type == "error" else None,
    )
    try:
        page.goto(address, wait_until="load")
        page.evaluate("async () => { if (window.MathJax) await MathJax.startup.promise; }")
        first(page)
        page.evaluate(
            """() => {
                document.querySelectorAll('details').forEach(d => { d.open = true; });
                document.querySelectorAll('.toggle-hidden').forEach(
                    e => e.classList.remove('toggle-hidden'));
                document.getAnimations().forEach(a => a.finish());  // what unfolds fades in
            }"""
        )
        yield visited
    finally:
        page.close()


def violations(page, colours, looked, whole_page=False):
    """What axe finds at the levels serious and critical, a sentence for each of its rules.

    What is within drawn maths is looked at with the `whole_page` page only.
    """
    report = page.evaluate(AXE_RUN, [OF_COLOURS, colours, whole_page])
    looked.note(report["passed"], report["undecided"])
    sentences = []
    for violation in report["violations"]:
        if violation["impact"] in ("serious", "critical"):
            places = [n[:120] for n in violation["nodes"] if n != EXCEPT.get(violation["id"])]
            if places:
                sentences.append(f"axe {violation['id']} ({len(places)}): {' | '.join(places[:3])}")
    return sentences


def show(page, width, theme):
    """Give a page a width and a theme."""
    resized = page.viewport_size is None or page.viewport_size["width"] != width
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme)
    page.evaluate(SETTLED, resized)


def faults(visited, looked=None, themed=lambda page, theme: None, *, thorough=THOROUGH):
    """Say what is wrong with an open page.

    A thorough look is at desktop and phone width, in both themes, and by axe. `looked` is what is
    known of texts, and grows. `themed` is called in each theme.
    """
    page, looked = visited.page, looked or Looked()
    sentences = {}
    for width in (1280, 360) if thorough else (1280,):
        for theme in ("light", "dark") if thorough else ("light",):
            show(page, width, theme)
            themed(page, theme)
            for fault, script in SCRIPTS.items():
                sentences |= {f"{fault}: {place}": None for place in page.evaluate(script)}
            sentences |= dict.fromkeys(visited.heard)
            if not thorough:
                continue
            if not page.evaluate("() => 'axe' in window"):
                page.evaluate(AXE)
            if page.evaluate(LIKE_NO_OTHER, looked.known()):
                sentences |= dict.fromkeys(violations(page, True, looked))
            if theme == "light":  # maths is drawn alike at any width
                sentences |= dict.fromkeys(
                    violations(page, False, looked, whole_page=width == 1280)
                )
    return list(sentences)
