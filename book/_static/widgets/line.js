// Expected sampled metrics bend into the straight line of AUC as the negatives get few.
"use strict";

(() => {
  const sm = window.sampledMetrics;
  const { el, number, percent, steps, slider, once, plot, scale, ticks, path, build, sentence } = sm.ui;
  const N = 10000;
  const METRICS = [["ap", "AP"], ["ndcg", "NDCG"], ["recall@1", "Recall@1"],
    ["recall@10", "Recall@10"]];

  sm.widgets.line = (root) => {
    const known = new Map();
    const panels = METRICS.map(([name, label]) => {
      const head = el("p", { class: "sm-head" }, label);
      const figure = el("p", { class: "sm-figure" });
      const drawn = plot({
        height: 168,
        label,
        draw: (svg, width) => {
          const m = negatives.value;
          const x = scale(1, N, 26, width - 12), y = scale(0, 1, 138, 10);
          ticks(svg, { axis: "y", at: 26, length: width - 38, scale: y, values: [0, 1] });
          ticks(svg, { axis: "x", at: 138, scale: x, values: [1, N / 2, N],
            format: (v) => (v === 1 ? "1" : `${v / 1000}k`) });
          svg.append(el("path", { d: path([[x(1), y(1)], [x(N), y(0)]]), class: "sm-exact sm-dashed" }));
          const [top, bottom] = [1, N].map((r) => sm.expected(name, r, N, m, true));
          if (top - bottom < 1e-12) return;
          const points = Array.from({ length: 161 }, (_, j) => {
            const r = Math.round(1 + (N - 1) * (j / 160) ** 2);
            return [x(r), y((sm.expected(name, r, N, m, true) - bottom) / (top - bottom))];
          });
          svg.append(el("path", { d: path(points), class: "sm-line sm-line-6" }));
        },
      });
      return { name, label, figure, drawn, node: el("div", {}, head, drawn.node, figure) };
    });
    const said = sentence();
    const unlinear = (name, m) => {
      const key = `${name} ${m}`;
      if (!known.has(key)) {
        const values = Float64Array.from({ length: N }, (_, r) => sm.expected(name, r + 1, N, m, true));
        known.set(key, sm.unlinear(values));
      }
      return known.get(key);
    };
    const figureOf = (name, m) => {
      const left = unlinear(name, m);
      if (Number.isNaN(left)) return "constant: everyone has 1";
      return left < 1e-12 ? "1 − R² = 0: it is AUC" : `1 − R² = ${percent(left, 2)}`;
    };
    let waiting = 0;
    const numbers = (m, i = 0) => {
      if (i === panels.length) return;
      panels[i].figure.textContent = figureOf(panels[i].name, m);
      waiting = setTimeout(numbers, 0, m, i + 1); // one metric at a time, so that the slider moves
    };
    const update = once(() => {
      const m = negatives.value;
      clearTimeout(waiting);
      panels.forEach(({ drawn, label }) => {
        drawn.say(`Expected ${label} with ${sm.ui.count(m, "negative")} against the true rank, scaled to 1 ` +
          "at the first rank and 0 at the last, beside the line of AUC");
        drawn.redraw();
      });
      waiting = setTimeout(numbers, 120, m);
      said.textContent = m === 1
        ? "With one negative every metric is the line of AUC, or constant."
        : `With ${number(m)} negatives: solid, the expected metric; dashed, the line of AUC.`;
    });
    const negatives = slider({ label: "Negatives m", values: steps(1, 1000, 2, 90), value: 2,
      change: update });
    build(root, {
      title: "Fewer negatives bend every metric into AUC",
      controls: [negatives],
      body: [el("div", { class: "sm-four" }, ...panels.map((p) => p.node))],
      said,
      note: `Expected metric at each true rank of ${number(N)}, scaled to run from 1 to 0; negatives ` +
        "drawn with replacement. 1 − R² is the share of its variance over all ranks that no line explains.",
    });
    update();
  };
})();
