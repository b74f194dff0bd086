// Bias against variance: what a correction reports, and the error of an average over users.
"use strict";

(() => {
  const sm = window.sampledMetrics;
  const { el, number, count, short, slider, choice, once, plot, scale, ticks, path, text, build,
    sentence, mark } = sm.ui;
  const METRICS = [["recall@10", "Recall@10"], ["ndcg@10", "NDCG@10"], ["ap", "AP"]];
  const GAMMAS = Array.from({ length: 33 }, (_, i) => 10 ** (-i / 8));
  const USERS = [10, 30, 100, 300, 1000, 3000, 6040, 10000, 30000, 100000];

  sm.widgets.correct = (root) => {
    const data = sm.bundled(), names = Object.keys(data);
    const N = Math.max(...data.X.n);
    const shares = names.map((name) => sm.shares(data[name], N));
    const grid = [...new Set(Array.from({ length: 100 }, (_, i) => Math.round(N ** (i / 99))))];
    const known = new Map();
    let found = null;
    // The laws of all ranks, each recommender's users, and the errors of their averages for each weight.
    const system = (name, m) => {
      const key = `${name} ${m}`;
      if (!known.has(key)) {
        if (known.size > 3) known.delete(known.keys().next().value); // each holds all laws
        const one = sm.system(name, N, m, true);
        const users = shares.map((weights) => sm.population(one, weights));
        const vectors = GAMMAS.map((gamma) => sm.biasVariance(one, gamma));
        const parts = users.map((each) => vectors.map((values) => sm.ofAverage(each, values)));
        const plain = users.map((each) => sm.ofAverage(each, sm.naive(name, m)));
        known.set(key, { one, vectors, parts, plain });
      }
      return known.get(key);
    };
    const error = ({ bias, sd }, users) => Math.hypot(bias, sd / Math.sqrt(users));
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
        ticks(svg, { axis: "x", at: 166, scale: x, values: width < 340 ? [1, 30, 1000] : [1, 10, 100, 1000] });
        text(svg, (40 + width) / 2, 204, "true rank", { "text-anchor": "middle", class: "sm-tick" });
        const line = (f) => path(grid.map((r) => [x(r), y(f(r))]));
        svg.append(
          el("path", { d: line((r) => sm.expected(name, r, N, m, true)), class: "sm-line-6 sm-dotted" }),
          el("path", { d: line((r) => found.mean[r - 1]), class: "sm-line sm-line-4" }),
          el("path", { d: line((r) => sm.value(name, r, N)), class: "sm-exact" }),
        );
      },
    });
    const average = plot({
      height: 220,
      label: "Error of the average against γ",
      draw: (svg, width) => {
        if (!found) return;
        const { parts, users, chosen } = found;
        const lines = parts.map((each) => each.map((part) => 100 * error(part, users)));
        const low = Math.min(...lines.flat()) / 1.3, high = Math.max(...lines.flat()) * 1.3;
        const x = scale(GAMMAS.at(-1), 1, 46, width - 30, true), y = scale(low, high, 176, 10, true);
        const round = [-2, -1, 0, 1, 2].flatMap((power) => [1, 2, 5].map((v) => v * 10 ** power));
        ticks(svg, { axis: "y", at: 46, length: width - 76, scale: y, format: (v) => short(v, 1),
          values: round.filter((v) => v >= low && v <= high) });
        ticks(svg, { axis: "x", at: 176, scale: x, values: [0.0001, 0.001, 0.01, 0.1, 1],
          format: (v) => String(v) });
        text(svg, (46 + width) / 2, 214, "weight of the variance γ", { "text-anchor": "middle", class: "sm-tick" });
        const rule = x(Math.max(1 / Math.sqrt(users), GAMMAS.at(-1)));
        svg.append(el("line", { x1: rule, x2: rule, y1: 10, y2: 176, class: "sm-line-6 sm-dashed" }));
        text(svg, rule + 5, 20, "1/√N", { class: "sm-tick" });
        // Names at the right end, lower ones moved down where they would touch.
        const ends = lines.map((line, i) => [y(line[0]), i]).sort((a, b) => a[0] - b[0]);
        let last = -Infinity;
        ends.forEach(([end, i]) => {
          last = Math.max(end, last + 15);
          text(svg, width - 22, last + 5, names[i], { class: "sm-name" });
          svg.append(
            el("path", { d: path(lines[i].map((v, j) => [x(GAMMAS[j]), y(v)])),
              class: `sm-line sm-line-${i + 1}` }),
            mark(i, x(GAMMAS[chosen]), y(lines[i][chosen]), 6),
          );
        });
      },
    });
    const cells = names.map(() => Array.from({ length: 4 }, () => el("td")));
    const table = el("table", { class: "sm-table" },
      el("thead", {}, el("tr", {}, ...["Points", "Bias", "Noise", "Error", "Uncorrected"].map(
        (name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, ...names.map((name, i) => el("tr", {}, el("th", { scope: "row" }, name), ...cells[i]))));
    const update = once(() => {
      const name = metric.value, m = negatives.value, gamma = weight.value, users = people.value;
      const { one, vectors, parts, plain } = system(name, m);
      const chosen = GAMMAS.indexOf(gamma), vector = vectors[chosen];
      found = { name, m, users, chosen, parts, values: vector, ...sm.moments(one, vector) };
      const errors = parts.map((each) => each.map((part) => error(part, users)));
      parts.forEach((each, i) => {
        const { bias, sd } = each[chosen];
        [bias, sd / Math.sqrt(users), errors[i][chosen], error(plain[i], users)].forEach((v, j) => {
          cells[i][j].textContent = short(100 * v);
        });
      });
      const least = errors.map((each) => {
        const best = each.indexOf(Math.min(...each));
        return `${short(GAMMAS[best])}${best === GAMMAS.length - 1 ? " or less" : ""}`;
      });
      said.textContent = `γ = ${short(gamma)}, ${count(m, "negative")}, ${count(users, "user")}: the average ` +
        `${METRICS.find(([key]) => key === name)[1]} is off by ` +
        `${names.map((k, i) => `${short(100 * errors[i][chosen])} points (${k})`).join(", ")}. ` +
        `Least at γ = ${names.map((k, i) => `${least[i]} (${k})`).join(", ")}.`;
      average.say(`Error of the average against γ. ${said.textContent}`);
      [values, curve, average].forEach((p) => p.redraw());
    });
    const weight = slider({ label: "Weight of the variance γ", values: GAMMAS,
      value: 10 ** -1.875, format: (v) => short(v), change: update });
    const negatives = slider({ label: "Negatives m", values: [5, 10, 20, 30, 50, 75, 100, 150, 200],
      value: 100, change: update });
    const people = slider({ label: "Users N", values: USERS, value: 6040, change: update });
    const metric = choice({ label: "Metric", options: METRICS, value: "recall@10", change: update });
    build(root, {
      title: "Less bias, more noise: move γ",
      controls: [weight, negatives, people, metric],
      body: [el("div", { class: "sm-two" },
        el("div", {}, el("p", { class: "sm-head" }, "Value reported"), values.node),
        el("div", {}, el("p", { class: "sm-head" }, "Its expectation"), curve.node)),
      el("p", { class: "sm-head" }, "Error of the average, in points"), average.node, table],
      said,
      note: `Bias-variance estimator, uniform prior, ${number(N)} items, negatives drawn with replacement. ` +
        "Top right: exact metric (solid), correction (purple), uncorrected (dotted). Below: root mean " +
        "squared error, √(bias² + noise²), of the average over users ranked as by X, Y and Z on MovieLens 1M. " +
        "Noise: its standard deviation. Marks: the chosen γ.",
    });
    update();
  };
})();
