// Starts reveal.js, and shrinks what would not fit on a slide: its element to touch, or its type.
"use strict";

(() => {
  const fit = () => {
    const slide = Reveal.getCurrentSlide();
    const room = Reveal.getConfig().height;
    const widget = slide.querySelector(".sm-widget");
    for (let zoom = 1; widget && slide.scrollHeight > room && zoom > 0.5; zoom -= 0.05) {
      widget.style.zoom = zoom;
    }
    for (let size = 26; slide.scrollHeight > room && size > 12; size -= 1) {
      slide.style.fontSize = `${size}px`;
    }
  };

  window.MathJax = {
    options: {
      processHtmlClass: "math",
      ignoreHtmlClass: "reveal",
      // Else the speaker's view, which has no style for it, shows each formula twice.
      menuOptions: { settings: { assistiveMml: false } },
    },
    startup: {
      ready() {
        MathJax.startup.defaultReady();
        MathJax.startup.promise.then(fit);
      },
    },
  };

  Reveal.initialize({
    width: 1280,
    height: 720,
    margin: 0.04,
    center: false,
    controls: false,
    hash: true,
    navigationMode: "linear", // the right arrow goes through a chapter, not past it
    transition: "none",
    plugins: [RevealNotes],
  }).then(fit);
  Reveal.on("slidechanged", fit);
  // A slider that keeps the focus would take the arrow keys, and those of a clicker.
  document.addEventListener("pointerup", (event) => {
    if (event.target.closest(".sm-widget")) document.activeElement.blur();
  });
})();
