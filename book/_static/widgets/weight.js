// What a user at each true rank contributes to a metric: exact, sampled, and exact at the stretched rank.
"use strict";

(() => {
  const sm = window.sampledMetrics;
  const { el, number, percent, count, steps, slider, choice, once, plot, scale, ticks, path, text, build,
    sentence } = sm.ui;
  const LABELS = { "recall@10": "Recall@10", "ndcg@10": "NDCG@10", rr: "RR", auc: "AUC" };

  sm.widgets.weight = (root) => {
    const setting = () => ({ name: metric.value, m: negatives.value, n: Number(items.value) });
    const said = sentence();
    // Whole ranks, about as many to each factor; each of the first ones, where exact metrics jump.
    const ranks = (n) => steps(1, n, 1, 400);
    const drawn = plot({
      height: 272,
      label: "Contribution of a user by true rank",
      draw: (svg, width) => {
        const { name, m, n } = setting();
        const x = scale(1, n, 34, width - 14, true), y = scale(0, 1, 222, 28);
        text(svg, 0, 11, "contribution of a user", { class: "sm-tick" });
        ticks(svg, { axis: "y", at: 34, length: width - 48, scale: y, values: [0, 0.5, 1],
          format: (v) => number(v, v === 0.5 ? 1 : 0) });
        ticks(svg, { axis: "x", at: 222, scale: x,
          values: [1, 10, 100, 1000, 10000, 100000].filter((v) => v <= n) });
        text(svg, (34 + width) / 2, 264, `true rank, of ${number(n)}`,
          { "text-anchor": "middle", class: "sm-tick" });
        const depth = sm.depth(10, n, m);
        const isRecall = name === "recall@10";
        const curves = [
          { words: `exact ${LABELS[name]}`, look: "sm-exact", at: isRecall ? 0.85 : 0.56,
            f: (r) => sm.value(name, r, n) },
          { words: isRecall ? `exact Recall@${number(depth)}` : "exact, stretched rank",
            look: "sm-exact sm-dashed", at: 0.1, f: (r) => sm.stretched(name, r, n, m) },
          { words: `${LABELS[name]} among ${number(m)}`, look: "sm-line sm-line-4", at: isRecall ? 0.6 : 0.25,
            colour: "var(--sm-4)", f: (r) => sm.expected(name, r, n, m, false) },
        ];
        const labels = [];
        for (const { f, look, words, at, colour = "var(--sm-text)" } of curves) {
          const values = ranks(n).map((r) => [r, f(r)]);
          // A cut-off is a step, not a slope.
          const points = values.flatMap(([r, v], i) => (i && values[i - 1][1] - v > 0.2
            ? [[x(r), y(values[i - 1][1])], [x(r), y(v)]] : [[x(r), y(v)]]));
          svg.append(el("path", { d: path(points), class: look }));
          if (name === "auc" && look !== "sm-exact") continue;
          const crossed = x(values.find(([, v]) => v < at)?.[0] ?? n), isRight = crossed > 0.55 * width;
          labels.push([crossed + (isRight ? -9 : 9), y(at) + 4,
            name === "auc" ? "all three coincide" : words,
            { "text-anchor": isRight ? "end" : "start", class: "sm-number", style: `fill: ${colour}; ` +
              "paint-order: stroke; stroke: var(--sm-surface); stroke-width: 4px" }]);
        }
        labels.forEach((label) => text(svg, ...label));
      },
    });
    const update = once(() => {
      const { name, m, n } = setting();
      const label = LABELS[name], depth = sm.depth(10, n, m), among = `With ${count(m, "negative")} from ` +
        `${number(n)} items`;
      const rank = Math.round(3.5 * n / m), stretched = 1 + ((rank - 1) * m) / (n - 1);
      said.textContent = name === "auc"
        ? `${among}, sampled AUC is exact AUC on average.`
        : name === "recall@10"
          ? `${among}, sampled Recall@10 is about exact Recall@${number(depth)}: the user at rank ` +
            `${number(depth)} contributes ${percent(sm.expected(name, depth, n, m, false), 0)}, and the user ` +
            `at rank ${number(Math.round(depth / 2))} still ` +
            `${percent(sm.expected(name, Math.round(depth / 2), n, m, false), 0)}.`
          : `${among}, rank ${number(rank)} becomes ${number(stretched, 1)}: the user contributes ` +
            `${number(sm.expected(name, rank, n, m, false), 2)} to sampled ${label}, near exact ${label} ` +
            `there (${number(sm.stretched(name, rank, n, m), 2)}).`;
      drawn.say(`What a user contributes to exact and sampled ${label}, by true rank. ${said.textContent}`);
      drawn.redraw();
    });
    const negatives = slider({ label: "Negatives m", values: steps(20, 2000, 100), value: 100,
      change: update });
    const items = choice({ label: "Items n", options: [["3541", "3,541"], ["20000", "20,000"],
      ["100000", "100,000"]], value: "3541", change: update });
    const metric = choice({ label: "Metric", options: Object.entries(LABELS), value: "recall@10",
      change: update });
    build(root, {
      title: "Which users does a sampled metric count?",
      controls: [negatives, items, metric],
      body: [drawn],
      said,
      note: "What a user whose held-out item has this true rank contributes: solid black to the exact " +
        "metric, purple to the sampled one in expectation (negatives distinct), dashed to the exact metric " +
        "of the stretched rank 1 + (r \u2212 1) m / (n \u2212 1), for Recall@10 a Recall at a greater depth.",
    });
    update();
  };
})();
