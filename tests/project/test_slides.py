"""The slides show what a chapter's page shows, and its prose becomes the speaker's notes."""

import pytest
from bs4 import BeautifulSoup

import slides

PAGE = """<article><section id="title"><span id="ch-title"></span>
<h1><span class="section-number">3. </span>Title<a class="headerlink" href="#title">#</a></h1>
<p>The question and the <a href="02_other.html#there">answer</a>.</p>
<div class="cell"><div class="cell_output"><figure><img src="../../_images/a.svg">
<figcaption>What it shows.</figcaption></figure></div></div>
<div class="cell tag_setup"><pre>import numpy</pre></div>
<section id="one"><h2>One</h2><p>{long}</p><div class="math">\\[ x \\]</div>
<p>With the mean</p><div class="math">\\[ y \\]</div>
<div class="cell tag_hide-cell"><pre>assert True</pre></div>
<p><strong>1.</strong> What is y?</p><div class="admonition dropdown">It is x.</div></section>
<section id="recap"><h2>Recap</h2><ul><li>One line.</li></ul></section>
<section id="next"><h2>Next</h2><p>And so on.</p></section>
</section></article>"""


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setattr(slides, "SITE", tmp_path)
    folder = tmp_path / slides.PAGES
    folder.mkdir(parents=True)
    path = folder / "03_name.html"
    path.write_text(PAGE.format(long="Prose for the speaker. " * 40), encoding="utf-8")
    return path


def test_a_chapter_becomes_slides(page):
    made = slides.chapter_slides(page)
    assert [slide.title for slide in made] == ["Title", "Title", "One", "Recap"]
    opening, figure, section, recap = (
        BeautifulSoup(slide.html(), "html.parser").section for slide in made
    )
    assert opening.a["href"] == "../html/book/notebooks/02_other.html#there"
    assert figure.img["src"] == "../html/_images/a.svg"
    assert recap.li.text == "One line."
    shown = " ".join(tag.get_text() for tag in section.find_all(["p", "div"], recursive=False))
    assert " ".join(shown.split()) == "\\[ x \\] With the mean \\[ y \\] 1. What is y?"
    notes = section.aside.get_text()
    assert "Prose for the speaker." in notes
    assert "It is x." in notes


def test_the_lectures_are_of_chapters_that_exist():
    names = {path.stem.partition("_")[2] for path in slides.ROOT.glob("book/chapters/*_*.md")}
    assert {name for one in slides.LECTURES.values() for name in one.chapters} <= names
