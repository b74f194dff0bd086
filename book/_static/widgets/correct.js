// Bias against variance: what a correction reports, what that is worth, and what it costs.
"use strict";

(() => {
  const sm = window.sampledMetrics;
  const { el, number, short, slider, choice, once, plot, scale, ticks, path, text, build, sentence,
    mark } = sm.ui;
  const N = 10000, USERS = 6040;
  const METRICS = [["recall@10", "Recall@10"], ["ndcg@10", "NDCG@10"], ["ap", "AP"]];
  const GAMMAS = Array.from({ length: 33 }, (_, i) => 10 ** (-i / 8));

  sm.widgets.correct = (root) => {
    const grid = [...new Set(Array.from({ length: 100 }, (_, i) => Math.round(N ** (i / 99))))];
    const known = new Map();
    let found = null;
    const system = (name, m) => {
      const key = `${name} ${m}`;
      if (!known.has(key)) {
        if (known.size > 3) known.delete(known.keys().next().value); // each holds all laws
        known.set(key, sm.system(name, N, m, true));
      }
      return known.get(key);
    };
    const said = sentence();
    const values = plot({
      height: 210,
      label: "Value reported at each sampled rank",
      draw: (svg, width) => {
        if (!found) return;
        const shown = Math.min(30, found.values.length), list = [...found.values].slice(0, shown);
        const low = Math.min(0, ...list), high = Math.max(...list, 0.01);
        const x = scale(0.5, shown + 0.5, 52, width - 8), y = scale(low, high, 166, 10);
        const each = width < 340 ? 10 : 5;
        ticks(svg, { axis: "y", at: 52, length: width - 60, scale: y, values: [...new Set([low, 0, high])]
          .filter((v) => v === 0 || Math.abs(y(v) - y(0)) > 14), format: (v) => short(v) });
        ticks(svg, { axis: "x", at: 166, scale: x,
          values: [1, ...Array.from({ length: Math.floor(shown / each) }, (_, i) => each * (i + 1))] });
        text(svg, (52 + width) / 2, 204, "sampled rank", { "text-anchor": "middle", class: "sm-tick" });
        list.forEach((v, i) => {
          svg.append(el("line", { x1: x(i + 1), x2: x(i + 1), y1: y(0), y2: y(v), class: "sm-stem" }));
          svg.append(mark(3, x(i + 1), y(v), 3.4));
        });
      },
    });
    const curve = plot({
      height: 210,
      label: "Expected value at each true rank",
      draw: (svg, width) => {
        if (!found) return;
        const { name, m } = found;
        const x = scale(1, N, 40, width - 22, true), y = scale(-0.1, 1.02, 166, 8);
        ticks(svg, { axis: "y", at: 40, length: width - 52, scale: y, values: [0, 0.5, 1],
          format: (v) => number(v, 1) });
        ticks(svg, { axis: "x", at: 166, scale: x, values: width < 340 ? [1, 100, 10000]
          : [1, 10, 100, 1000, 10000] });
        text(svg, (40 + width) / 2, 204, "true rank", { "text-anchor": "middle", class: "sm-tick" });
        const line = (f) => path(grid.map((r) => [x(r), y(f(r))]));
        svg.append(
          el("path", { d: line((r) => sm.expected(name, r, N, m, true)), class: "sm-line-6 sm-dotted" }),
          el("path", { d: line((r) => found.mean[r - 1]), class: "sm-line sm-line-4" }),
          el("path", { d: line((r) => sm.value(name, r, N)), class: "sm-exact" }),
        );
      },
    });
    const bars = plot({
      height: 96,
      label: "Bias and noise",
      draw: (svg, width) => {
        if (!found) return;
        const rows = [["bias", found.bias], [`noise of ${number(USERS)} users`, found.noise / Math.sqrt(USERS)],
          ["noise of one user", found.noise]];
        const x = scale(1e-5, 10, 12, width - 12, true);
        rows.forEach(([label, v], i) => {
          const y = 6 + 30 * i;
          svg.append(el("rect", { x: 12, y, width: Math.max(x(v) - 12, 0), height: 8,
            class: i ? "sm-bar-4" : "sm-bar-2" }));
          text(svg, 12, y + 22, `${label} ${short(v)}`, { class: "sm-label" });
        });
      },
    });
    const update = once(() => {
      const name = metric.value, m = negatives.value, gamma = weight.value;
      const one = system(name, m), vector = sm.biasVariance(one, gamma);
      const both = sm.moments(one, vector);
      found = { name, m, values: vector, ...both, ...sm.errors(one, both) };
      said.textContent = `γ = ${short(gamma)} and ${number(m)} negatives: root mean square of the bias over ` +
        `all ranks ${short(found.bias)}, standard deviation for one user ${short(found.noise)}, for the mean of ` +
        `${number(USERS)} users ${short(found.noise / Math.sqrt(USERS))}.`;
      [values, curve, bars].forEach((p) => p.redraw());
    });
    const weight = slider({ label: "Weight of the variance γ", values: GAMMAS,
      value: 10 ** -1.875, format: (v) => short(v), change: update });
    const negatives = slider({ label: "Negatives m", values: [5, 10, 20, 30, 50, 75, 100, 150, 200],
      value: 100, change: update });
    const metric = choice({ label: "Metric", options: METRICS, value: "ap", change: update });
    build(root, {
      title: "Less bias, more noise: move γ",
      controls: [weight, negatives, metric],
      body: [el("div", { class: "sm-two" },
        el("div", {}, el("p", { class: "sm-head" }, "Value reported"), values.node),
        el("div", {}, el("p", { class: "sm-head" }, "Its expectation"), curve.node)), bars],
      said,
      note: `Bias-variance estimator for ${number(N)} items, uniform prior, negatives drawn with replacement. ` +
        "Right: exact (black in the light, white in the dark), expected value of the correction (purple), " +
        "uncorrected (dotted). Bars are on a logarithmic scale from 10⁻⁵ to 10.",
    });
    update();
  };
})();
