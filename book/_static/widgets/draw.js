// Draw negatives on a strip of all items, and see the counts fill the distribution.
"use strict";

(() => {
  const sm = window.sampledMetrics;
  const { el, number, count, steps, slider, choice, button, once, plot, scale, ticks, path, text, build,
    sentence } = sm.ui;
  const M = 99;

  sm.widgets.draw = (root) => {
    let counts = new Float64Array(M + 1), runs = 0, places = [];
    const random = sm.generator(1);
    const said = sentence();
    let n = 10000;
    const among = (place) => Math.max(Math.round((place * n) / 10000), 1); // place: of 10,000
    const setting = () => ({ n, rank: among(rank.value), replacement: law.value === "with" });
    const strip = plot({
      height: 128,
      label: "All items in the order of their ranks, and those drawn",
      draw: (svg, width) => {
        const { rank: r } = setting();
        const rows = n > 1000 ? 10 : 3, each = Math.ceil(n / rows), high = 120 / rows;
        const x = (place) => (((place - 1) % each) + 0.5) / each * width;
        const y = (place) => Math.floor((place - 1) / each) * high;
        for (let row = 0; row < rows; row += 1) {
          svg.append(el("rect", { x: 0, y: row * high, width, height: high - 3, class: "sm-strip" }));
        }
        const line = (list) => list.map((p) => `M${x(p).toFixed(1)} ${y(p)}v${high - 3}`).join("");
        svg.append(
          el("path", { d: line(places.filter((p) => p < r)), class: "sm-line-4 sm-tickmark" }),
          el("path", { d: line(places.filter((p) => p > r)), class: "sm-line-6 sm-tickmark" }),
          el("rect", { x: x(r) - 3.5, y: y(r) - 2, width: 7, height: high + 1, class: "sm-item" }),
        );
      },
    });
    const histogram = plot({
      height: 230,
      label: "How often each sampled rank came, beside its probability",
      draw: (svg, width) => {
        const { rank: r, replacement } = setting();
        const given = sm.pmf(r, n, M, replacement), other = sm.pmf(r, n, M, !replacement);
        const mean = (M * (r - 1)) / (n - 1), sd = Math.sqrt(mean * (1 - mean / M));
        const low = Math.max(0, Math.floor(mean - 4.5 * sd - 2)), high = Math.min(M, Math.ceil(mean + 4.5 * sd + 3));
        const shares = [...counts].map((c) => (runs ? c / runs : 0));
        const most = 1.15 * Math.max(...given, ...other, ...(runs > 30 ? shares : []));
        const x = scale(low + 0.5, high + 1.5, 44, width - 6), y = scale(0, most, 184, 12);
        const step = Math.max(1, Math.ceil((high - low + 1) / (width / 42)));
        const marks = [];
        for (let k = low + 1; k <= high + 1; k += step) marks.push(k);
        const grid = [0, 0.25, 0.5, 0.75, 1].map((f) => f * most / 1.15);
        ticks(svg, { axis: "y", at: 44, length: width - 50, scale: y, values: grid,
          format: (v) => number(v, 2) });
        ticks(svg, { axis: "x", at: 184, scale: x, values: marks });
        text(svg, (44 + width) / 2, 222, "sampled rank", { "text-anchor": "middle", class: "sm-tick" });
        const wide = Math.max(1, 0.8 * (x(2) - x(1)));
        for (let k = low; k <= high; k += 1) {
          const top = Math.max(y(shares[k]), 0);
          svg.append(el("rect", { x: x(k + 1) - wide / 2, y: top, width: wide, height: 184 - top,
            class: "sm-bar" }));
        }
        const curve = (p) => path(Array.from({ length: high - low + 1 },
          (_, i) => [x(low + i + 1), y(p[low + i])]));
        svg.append(el("path", { d: curve(other), class: "sm-line-6 sm-dotted" }),
          el("path", { d: curve(given), class: "sm-exact" }));
        for (let k = low; k <= high; k += 1) {
          svg.append(el("circle", { cx: x(k + 1), cy: y(given[k]), r: 2.6, class: "sm-exact-dot" }));
        }
      },
    });
    const draw = (times) => {
      const { rank: r, replacement } = setting();
      for (let i = 0; i < times; i += 1) {
        places = sm.drawn(r, n, M, replacement, random);
        counts[places.filter((p) => p < r).length] += 1;
        runs += 1;
      }
      update();
    };
    const restart = () => {
      counts = new Float64Array(M + 1);
      runs = 0;
      draw(1);
    };
    const update = once(() => {
      const { rank: r } = setting();
      const above = places.filter((p) => p < r).length;
      const mean = counts.reduce((sum, c, k) => sum + c * (k + 1), 0) / runs;
      said.textContent = `The item at rank ${number(r)} of ${number(n)} came ${number(above + 1)}` +
        `${["th", "st", "nd", "rd"][[11, 12, 13].includes((above + 1) % 100) ? 0 : (above + 1) % 10] ?? "th"}` +
        ` of 100 this time. Mean sampled rank of ${count(runs, "sample")}: ` +
        `${number(mean, 2)}; expected: ${number(1 + (M * (r - 1)) / (n - 1), 2)}.`;
      strip.redraw();
      histogram.redraw();
    });
    const rank = slider({ label: "True rank", values: steps(34, 10000, 500), value: 500,
      format: (v) => number(among(v)), change: restart });
    const items = choice({ label: "Items n", options: [["10000", "10,000"], ["300", "300"]],
      value: "10000", change: (v) => { n = Number(v); rank.set(rank.value); restart(); } });
    const law = choice({ label: "Replacement", options: [["with", "with"], ["without", "without"]],
      value: "with", change: restart });
    build(root, {
      title: "Draw 99 negatives: which rank does the item get among them?",
      controls: [rank, items, law, el("div", { class: "sm-buttons" },
        button("Draw 99", () => draw(1)), button("Draw 99 a hundred times", () => draw(100)),
        button("Start again", restart))],
      body: [strip, histogram],
      said,
      note: "Above: every item, from the first rank at the top left to the last; the tall mark is the " +
        "relevant item, purple ticks are negatives above it, grey ones below. Below: the share of " +
        "samples at each sampled rank (bars) and its probability (dots; dotted: under the other way " +
        "to draw).",
    });
    restart();
  };
})();
