// The more one assumes, the shorter the range of exact metrics that a sample leaves possible.
"use strict";

(() => {
  const sm = window.sampledMetrics;
  const { el, percent, outward, number, slider, choice, once, plot, scale, ticks, text, build, sentence, mark } = sm.ui;
  const CONDITIONS = ["whatever the ranks", "if deeper ranks have fewer users"];
  const SAID = ["no assumption on the ranks", "decreasing at the top: deeper ranks have fewer users",
    "a prior, fitted to the log: an estimate, no verdict"];
  const PRIOR = CONDITIONS.length;
  const METRICS = [["recall@10", "Recall@10"], ["ndcg@10", "NDCG@10"]];

  sm.widgets.assume = (root) => {
    const names = Object.keys(sm.possible[METRICS[0][0]]["100"]);
    const said = sentence();
    const fitted = () => assumed.value === PRIOR;
    // The range that is possible, and for a prior that of the standard error.
    const ends = (found, name) => (fitted() ? found[name].prior[users.value].value.slice(1)
      : found[name][users.value][assumed.value]);
    const range = (found, name) => {
      const pair = ends(found, name), [low, high] = pair ? outward(pair, 1, "%") : [];
      return fitted() ? `${percent(found[name].prior[users.value].value[0])} (${low} to ${high})`
        : low ? `${low} to ${high}` : "refused";
    };
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
          if (fitted()) {
            svg.append(
              el("line", { x1: x(pair[0]), x2: x(pair[1]), y1: y, y2: y, class: `sm-line sm-line-${i + 1}` }),
              mark(i, x(found[name].prior[users.value].value[0]), y, 7),
            );
          } else if (pair) {
            svg.append(el("rect", { x: x(pair[0]), y: y - 9, width: Math.max(x(pair[1]) - x(pair[0]), 2),
              height: 18, class: `sm-bar-${i + 1}` }));
          }
          svg.append(el("line", { x1: x(found[name].exact), x2: x(found[name].exact), y1: y - 16, y2: y + 16,
            class: "sm-exact" }));
          text(svg, x(0), y + 29, pair ? `${range(found, name)}; reported ${percent(found[name].reported, 0)}`
            : "refused: the sample contradicts this", { class: "sm-label" });
        });
      },
    });
    const update = once(() => {
      const found = sm.possible[metric.value][negatives.value];
      const label = METRICS.find(([key]) => key === metric.value)[1];
      const ahead = names.flatMap((one) => names.filter((two) => {
        if (fitted()) return found[one].prior[users.value].ahead.includes(two);
        const [a, b] = [ends(found, one), ends(found, two)];
        return a && b && a[0] > b[1];
      }).map((two) => `${one} ${fitted() ? "ahead of" : "beats"} ${two}`)).join(", ");
      said.textContent = !fitted()
        ? ahead ? `Verdict in ${label}: ${ahead} (each range at 95% confidence, ${CONDITIONS[assumed.value]}).` : `No verdict in ${label}: all three ranges overlap.`
        : ahead ? `Likely in ${label}: ${ahead}. This is no verdict: it stands on the prior.`
          : `Nobody is likely ahead in ${label}: the estimates are too close to each other.`;
      drawn.say(`${names.map((k) => `${k} ${range(found, k)}`).join("; ")}. ${said.textContent}`);
      drawn.redraw();
    });
    const assumed = slider({ label: "I assume", values: SAID.map((_, i) => i), value: 0,
      format: (i) => SAID[i], change: update });
    assumed.node.classList.add("sm-dial");
    const counts = Object.keys(sm.possible[METRICS[0][0]]);
    const metric = choice({ label: "Metric", options: METRICS, value: "ndcg@10", change: update });
    const negatives = choice({ label: "Negatives m", options: counts.map((m) => [m, number(Number(m))]),
      value: "100", change: update });
    const users = choice({ label: "Users", options: [["log", "6,040"], ["million", "a million"]],
      value: "log", change: update });
    build(root, {
      title: "How much are you willing to assume?",
      controls: [assumed, metric, negatives, users],
      body: [drawn],
      said,
      note: "Coloured: the exact metrics that agree with the log and the assumption, each range at 95% confidence; " +
        "grey: with no assumption and 6,040 users; upright line: the exact metric. With the prior: estimates, and 95% " +
        "intervals without their bias. The package computed all of them beforehand.",
    });
    update();
  };
})();
