"""The slides of the lectures open without errors, and everything on a slide is to be seen."""

import pytest

import slides

HEIGHTS = """async () => {
  const heights = [];
  for (let i = 0; i < Reveal.getTotalSlides(); i += 1) {
    const slide = Reveal.getCurrentSlide();
    heights.push([slide.scrollHeight, slide.scrollWidth, slide.innerText.slice(0, 40)]);
    Reveal.next();
    await new Promise(done => setTimeout(done, 20));
  }
  return heights;
}"""


@pytest.mark.parametrize("lecture", slides.LECTURES)
def test_a_lecture_fits_its_slides(browser, serve, lecture):
    slides.main()
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("requestfailed", lambda request: problems.append(request.url))
    page.goto(f"{serve(slides.SLIDES.parent)}/slides/{lecture}.html")
    page.wait_for_function("typeof Reveal !== 'undefined' && Reveal.isReady()")
    page.wait_for_function("!document.querySelector('.sm-widget:not([data-ready])')")
    page.wait_for_function("document.querySelector('mjx-container')")
    heights = page.evaluate(HEIGHTS)
    page.close()
    assert problems == []
    assert len(heights) > 20
    assert [slide for slide in heights if slide[0] > 720 or slide[1] > 1280] == []
