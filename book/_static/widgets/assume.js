// The more one assumes, the shorter the range of exact metrics that a sample leaves possible.
"use strict";

(() => {
  const sm = window.sampledMetrics;
  const { el, percent, number, slider, choice, once, plot, scale, ticks, text, build, sentence, mark } = sm.ui;
  const RUNGS = ["nothing", "near the top, deeper ranks have fewer users",
    "… at most 4 times fewer at each doubling of the rank",
    "… at most 2 times fewer at each doubling of the rank"];
  const METRICS = [["recall@10", "Recall@10"], ["ndcg@10", "NDCG@10"]];

  sm.widgets.assume = (root) => {
    const names = Object.keys(sm.possible[METRICS[0][0]]["100"]);
    const said = sentence();
    const ends = (found, name) => found[name][users.value][rung.value];
    const drawn = plot({
      height: 216,
      label: "Possible exact metrics of each recommender",
      draw: (svg, width) => {
        const found = sm.possible[metric.value][negatives.value];
        const most = 1.04 * Math.max(...names.flatMap((k) => [found[k].log[0][1], found[k].exact]));
        const x = scale(0, most, 30, width - 14);
        const values = [0, 0.05, 0.1, 0.15, 0.2, 0.25].filter((v) => v <= most);
        ticks(svg, { axis: "x", at: 188, length: 188, scale: x, format: (v) => percent(v, 0),
          values });
        names.forEach((name, i) => {
          const y = 38 + 58 * i, pair = ends(found, name), weakest = found[name].log[0];
          text(svg, 4, y + 6, name, { class: "sm-name" });
          svg.append(el("rect", { x: x(weakest[0]), y: y - 9, width: x(weakest[1]) - x(weakest[0]),
            height: 18, class: "sm-possible" }));
          if (pair) {
            svg.append(el("rect", { x: x(pair[0]), y: y - 9, width: Math.max(x(pair[1]) - x(pair[0]), 2),
              height: 18, class: `sm-bar-${i + 1}` }));
          }
          svg.append(el("line", { x1: x(found[name].exact), x2: x(found[name].exact), y1: y - 16, y2: y + 16,
            class: "sm-exact" }));
          text(svg, x(0), y + 29, pair
            ? `${percent(pair[0])} to ${percent(pair[1])}; reported ${percent(found[name].reported, 0)}`
            : "refused: the sample contradicts this", { class: "sm-label" });
        });
      },
    });
    const update = once(() => {
      const found = sm.possible[metric.value][negatives.value];
      const label = METRICS.find(([key]) => key === metric.value)[1];
      const certain = [];
      names.forEach((one) => names.forEach((two) => {
        const [a, b] = [ends(found, one), ends(found, two)];
        if (a && b && a[0] > b[1]) certain.push(`${one} beats ${two}`);
      }));
      said.textContent = certain.length
        ? `Verdict in ${label}: ${certain.join(", ")}.`
        : `No verdict in ${label}: all three ranges overlap.`;
      drawn.say(`${names.map((k) => `${k} ${(ends(found, k) ?? []).map((v) => percent(v)).join(" to ")}`)
        .join("; ")}. ${said.textContent}`);
      drawn.redraw();
    });
    const rung = slider({ label: "I assume", values: RUNGS.map((_, i) => i), value: 0,
      format: (i) => RUNGS[i], change: update });
    rung.node.classList.add("sm-dial");
    const counts = Object.keys(sm.possible[METRICS[0][0]]);
    const metric = choice({ label: "Metric", options: METRICS, value: "ndcg@10", change: update });
    const negatives = choice({ label: "Negatives m", options: counts.map((m) => [m, number(Number(m))]),
      value: "100", change: update });
    const users = choice({ label: "Users", options: [["log", "6,040"], ["million", "a million"]],
      value: "log", change: update });
    build(root, {
      title: "How much are you willing to assume?",
      controls: [rung, metric, negatives, users],
      body: [drawn],
      said,
      note: "Coloured: the exact metrics that agree with the log and the assumption at 95% confidence; grey: " +
        "with nothing assumed and 6,040 users; line: the exact metric. The ranges were computed beforehand by the " +
        "package, as each end takes a convex programme.",
    });
    update();
  };
})();
