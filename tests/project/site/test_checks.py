"""The checks can fail: a sound page passes, and each defect put into it is named."""

import pytest
from checks import Looked, faults, visit

SOUND = """<!doctype html>
<html lang="en"><head><title>A page</title><link rel="icon" href="data:,">
<style>body {{ margin: 0; color: #000; background: #fff }}</style></head>
<body><main><article><h1>A page</h1>
<p>It has <code>$$</code> in code only.</p>
<figure><img alt="A black square" width="9" height="9" src="{image}">
<figcaption>A square.</figcaption></figure>
{defect}
</article></main></body></html>"""
IMAGE = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' width='9' height='9'%3E"
    "%3Crect width='9' height='9'/%3E%3C/svg%3E"
)
FIGURE = '<figure><img alt="{alt}" src="' + IMAGE + '"><figcaption>{caption}</figcaption></figure>'

DEFECTS = {
    "console": ("<script>console.error('lost')</script>", "an error on the console: lost"),
    "script": ("<script>nowhere()</script>", "an error in a script: nowhere is not defined"),
    "missing file": ("<script src='no.js'></script>", "an error on the console: Failed to load"),
    "other host": (
        "<script src='http://assets.invalid/a.js'></script>",
        "a request to another host: http://assets.invalid/a.js",
    ),
    "raw maths": (r"<p>so \(x^2\)</p>", "maths is not rendered"),
    "raw display maths": ("<p>so $$x^2$$</p>", "maths is not rendered"),
    "maths left alone": ("<span class='math'>x</span>", "maths is not rendered"),
    "maths with an error": ("<mjx-merror>Undefined</mjx-merror>", "maths is not rendered"),
    "role left alone": ("<p>see {eq}`one`</p>", "maths is not rendered"),
    "wide": ("<div style='width: 3000px'>wide</div>", "the page scrolls sideways: 3000 px"),
    "caption of a wide table": (
        "<div style='overflow: auto' tabindex=0><table style='width: 3000px'>"
        "<caption>A table.</caption><tr><td>1</td></tr></table></div>",
        "the caption of a table is cut off",
    ),
    "no alt": (
        FIGURE.replace('alt="{alt}" ', "").format(caption="A square."),
        "an image has no text",
    ),
    "empty alt": (FIGURE.format(alt="", caption="A square."), "an image has no text"),
    "alt is a path": (FIGURE.format(alt="_images/a.svg", caption="A."), "an image has no text"),
    "broken image": ("<p hidden><img alt='A' src='no.png'></p>", "an image is broken"),
    "no caption": (FIGURE.format(alt="A square", caption=" "), "a figure has no caption"),
    "no figure": (f'<p><img alt="A square" src="{IMAGE}"></p>', "a figure has no caption"),
    "stderr": ("<div class='output stderr'>Warning</div>", "a cell wrote to the error stream"),
    "traceback": ("<div class='output traceback'>Error</div>", "a cell wrote to the error stream"),
    "faint": ("<p style='color: #ccc'>Hard to read</p>", "axe color-contrast"),
    "faint among others": (
        "<p>Text</p>" * 9
        + "<p>Text <b style='color: #ccc'>hard</b></p>"
        + "<p><b>Text</b></p>" * 9,
        "axe color-contrast (1)",
    ),
    "faint where the others stand on black": (
        "<div style='background: #000; color: #aaa'><p>A</p></div><p style='color: #aaa'>Text</p>",
        "axe color-contrast (1)",
    ),
    "faint in the dark": (
        "<style>@media (prefers-color-scheme: dark) { p { color: #ccc } }</style><p>Text</p>",
        "axe color-contrast",
    ),
    "nameless button": ("<button></button>", "axe button-name"),
    "folded away": (
        "<details><summary>More</summary><p style='color: #ccc'>Hard</p></details>",
        "axe color-contrast",
    ),
}


def faults_of(browser, serve, folder, looked=None, defect=""):
    (folder / "page.html").write_text(SOUND.format(image=IMAGE, defect=defect))
    context = browser.new_context(reduced_motion="reduce")
    with visit(context, f"{serve(folder)}/page.html") as visited:
        sentences = faults(visited, looked, thorough=True)
    context.close()
    return sentences


def test_a_contrast_that_has_passed_does_not_stand_for_another(browser, serve, tmp_path):
    first = faults_of(browser, serve, tmp_path, looked := Looked())
    second = faults_of(browser, serve, tmp_path, looked, "<p style='color: #ccc'>Hard to read</p>")
    assert (first, len(second)) == ([], 1)


def test_a_faint_text_is_never_known_and_an_undecided_one_is_after_a_few_looks(
    browser, serve, tmp_path
):
    looked, faint = Looked(), "<p style='color: #ccc'>Hard to read</p>"
    for _ in range(Looked.TIMES + 1):
        assert len(faults_of(browser, serve, tmp_path, looked, faint)) == 1
    assert not any("rgb(204, 204, 204)" in text for text in looked.known())
    shaded = "<p style='background: linear-gradient(#fff, #eee)'>Text</p>"
    assert faults_of(browser, serve, tmp_path, looked, shaded) == []
    (text,) = [text for text in looked.undecided if "linear-gradient" in text]
    assert looked.undecided[text] == Looked.TIMES
    assert text in looked.known()


def test_a_sound_page_has_no_fault(browser, serve, tmp_path):
    assert faults_of(browser, serve, tmp_path) == []


@pytest.mark.parametrize("name", DEFECTS)
def test_each_defect_is_named(browser, serve, tmp_path, name):
    defect, sentence = DEFECTS[name]
    assert any(
        fault.startswith(sentence) for fault in faults_of(browser, serve, tmp_path, None, defect)
    )
