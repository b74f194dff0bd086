"""No text of a figure covers another at the width of a phone."""

from io import StringIO
from pathlib import Path

import matplotlib
import pytest
from matplotlib.figure import Figure

from sampled_metrics.report.figures import STYLE

IMAGES = Path(__file__).parents[3] / "_build" / "html" / "_images"
PHONE = 390
#: Pairs of texts with less than three pixels between their ink side by side and less than one from
#: top to bottom, by what they say: they overlap or touch. Matplotlib draws a text as a group of
#: glyphs with a comment that spells it. The boxes of two labels that stand at the same slant
#: overlap where their ink does not.
COVERED = """() => {
  const slant = (g) => {
    const turned = /rotate\\((-?[\\d.]+)/.exec(g.innerHTML);
    return turned ? Math.abs(Number(turned[1])) % 90 : 0;
  };
  const texts = [...document.querySelectorAll('g[id^="text_"]')].map((g) => ({
    said: [...g.childNodes].filter((n) => n.nodeType === 8).map((n) => n.data.trim()).join(" "),
    box: g.getBoundingClientRect(),
    slant: slant(g),
  }));
  const apart = (a, b) => Math.max(
    Math.max(a.left, b.left) - Math.min(a.right, b.right) - 3,
    Math.max(a.top, b.top) - Math.min(a.bottom, b.bottom) - 1,
  );
  return texts.flatMap((a, i) => texts.slice(i + 1)
    .filter((b) => !(a.slant && a.slant === b.slant) && apart(a.box, b.box) < 0)
    .map((b) => [a.said, b.said]));
}"""


@pytest.fixture(scope="module")
def page(context):
    opened = context.new_page()
    opened.set_viewport_size({"width": PHONE, "height": 800})
    yield opened
    opened.close()


def covered(page, svg):
    """The texts of a drawing that cover each other, and how many texts there are."""
    drawn = svg[svg.index("<svg") :]
    page.set_content(f"<style>body {{margin: 0}} svg {{width: 100%; height: auto}}</style>{drawn}")
    return page.evaluate(COVERED), page.locator('g[id^="text_"]').count()


@pytest.mark.parametrize("image", sorted(IMAGES.glob("*.svg")), ids=lambda path: path.stem[:12])
def test_no_text_covers_another(page, image):
    pairs, texts = covered(page, image.read_text(encoding="utf-8"))
    assert texts, "no text is found: is it drawn another way than the test looks for?"
    assert pairs == []


@pytest.mark.parametrize(
    ("at", "found"),
    [((0.4, 0.5), False), ((0.11, 0.5), True), ((0.1, 0.6), False), ((0.1, 0.528), True)],
    ids=["side by side", "over each other", "one above the other", "touching from above"],
)
def test_texts_that_touch_are_found(page, at, found):
    figure, svg = Figure(figsize=(6, 3)), StringIO()
    figure.text(0.1, 0.5, "one")
    figure.text(*at, "two")
    with matplotlib.rc_context({"svg.fonttype": STYLE["svg.fonttype"]}):
        figure.savefig(svg, format="svg")
    pairs, texts = covered(page, svg.getvalue())
    assert texts == 2
    assert pairs == ([["one", "two"]] if found else [])
