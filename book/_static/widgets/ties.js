// What breaking ties does to one recommender's metrics.
"use strict";

(() => {
  const sm = window.sampledMetrics;
  const { el, percent, number, choice, once, plot, scale, ticks, text, build, sentence, mark } = sm.ui;
  const M = 100;
  const ROWS = [["auc", null, "AUC, exact"], ["recall@10", null, "Recall@10, exact"],
    ["recall@10", M, `Recall@10, ${M} negatives`]];
  const TIES = [["optimistic", "first"], ["mean", "at random"], ["pessimistic", "last"]];

  sm.widgets.ties = (root) => {
    const data = sm.bundled();
    const of = (name, ties) => ROWS.map(([metric, m]) => sm.ofTied(metric, data[name], ties, m));
    const found = Object.fromEntries(TIES.map(([ties]) => [ties, of("Z", ties)]));
    const other = of("X", "mean");
    const said = sentence();
    const drawn = plot({
      height: 214,
      label: "Metrics of Z and X in percent",
      draw: (svg, width) => {
        const x = scale(0, 1, 12, width - 26);
        ticks(svg, { axis: "x", at: 186, length: 186, scale: x, values: [0, 0.25, 0.5, 0.75, 1],
          format: (v) => percent(v, 0) });
        ROWS.forEach(([, , label], i) => {
          const y = 40 + 60 * i;
          const all = TIES.map(([ties]) => x(found[ties][i]));
          text(svg, 12, y - 20, `${label}: Z ${percent(found[ties.value][i])}, X ${percent(other[i])}`,
            { class: "sm-label" });
          svg.append(
            el("line", { x1: 12, x2: width - 26, y1: y, y2: y, class: "sm-axis" }),
            el("line", { x1: Math.min(...all), x2: Math.max(...all), y1: y, y2: y, class: "sm-span" }),
            mark(0, x(other[i]), y, 7, { class: "sm-open-1" }),
            mark(2, x(found[ties.value][i]), y, 9, { class: "sm-fill-3 sm-moves" }),
          );
        });
      },
    });
    const update = once(() => {
      const [auc, exact, sampled] = found[ties.value].map((v) => percent(v));
      said.textContent = `Z has an AUC of ${auc}, an exact Recall@10 of ${exact}, and with ${M} negatives ` +
        `a Recall@10 of ${sampled}.`;
      drawn.say(said.textContent);
      drawn.redraw();
    });
    const ties = choice({ label: "The held-out item comes … among its ties", options: TIES,
      value: "mean", change: update });
    const users = data.Z.tied.filter((t) => t > 100).length;
    build(root, {
      title: "One recommender, one set of scores, three ways to break ties",
      controls: [ties],
      body: [drawn],
      said,
      note: `Triangle: Z, whose held-out item is level with more than 100 others for ${number(users)} of ` +
        `${number(data.Z.n.length)} users; the bar is where it can go. Open circle: X.`,
    });
    update();
  };
})();
