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
    options: { processHtmlClass: "math", ignoreHtmlClass: "reveal" },
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
    hash: true,
    transition: "none",
    plugins: [RevealNotes],
  }).then(fit);
  Reveal.on("slidechanged", fit);
})();
