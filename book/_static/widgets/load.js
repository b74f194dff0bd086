// Loads the scripts of the widgets that a page has, and nothing on a page that has none.
// They are plain scripts, not modules, so that they run on pages opened from a file, too.
"use strict";

(() => {
  const folder = document.currentScript.src.replace(/[^/]*$/, "");
  const needs = { podium: ["ranks"], ties: ["ranks"], correct: ["ranks"], assume: ["possible"],
    table: ["programme"], repeat: ["ranks", "verdict"] };
  const loaded = new Map();

  const load = (name) => {
    if (!loaded.has(name)) {
      loaded.set(name, new Promise((done, failed) => {
        const script = document.createElement("script");
        script.src = `${folder}${name}.js`;
        script.onload = done;
        script.onerror = () => failed(new Error(`${script.src} is missing`));
        document.head.append(script);
      }));
    }
    return loaded.get(name);
  };

  const start = async (root) => {
    const name = root.dataset.widget;
    await load("math");
    await load("ui");
    for (const script of needs[name] ?? []) await load(script);
    await load(name);
    window.sampledMetrics.widgets[name](root);
    root.dataset.ready = "";
  };

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll(".sm-widget[data-widget]").forEach(start);
  });
})();
